"""The faces wing: widgets and static views, plots, the command line."""
