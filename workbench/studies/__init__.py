"""The studies wing: experiments, benchmark networks, TASO's interface and search, analysis of runs."""
