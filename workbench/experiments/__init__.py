"""Studies: what is run is said in a YAML file, every run leaves a record, the records make the tables."""
