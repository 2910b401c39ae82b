"""`fader mapreduce` under kill -9."""
