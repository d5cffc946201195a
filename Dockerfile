# The workbench with JupyterLab: docker build -t workbench . && docker run --rm -p 8888:8888 workbench
FROM python:3.12-slim
# What continuous integration takes from Debian, too; the compiler is for kernels in C.
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev git && rm -rf /var/lib/apt/lists/*
WORKDIR /workbench
COPY . .
RUN bin/environment notebook
EXPOSE 8888
CMD ["bin/lab", "--ip=0.0.0.0", "--no-browser"]
