"""Presets: what an application reads about its gang, each as data in `{name}.toml`; `model` reads them."""
