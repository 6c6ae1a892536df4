"""Looking at recorded episodes: frames, one self-contained page for browsers, and the same in Jupyter."""
