"""The names of the programs that this library continues: faces of what the systems do, importable from there too."""
