"""The model zoo: data of studies. Families of networks with forms by hand, and exports of real architectures."""
