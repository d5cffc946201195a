"""Studies: a YAML file lists the runs, each run writes a record, tables are generated from the records."""
