"""`fader db` under kill -9."""
