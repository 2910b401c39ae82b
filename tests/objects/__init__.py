"""Objects under kills: writers, readers and a judge."""
