"""The async shell: it runs nodes, feeds the algebra, commits and tells.  Nothing is decided here."""
