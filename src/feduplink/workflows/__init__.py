"""The jobs: one module per job, whose verb is called by every front end."""
