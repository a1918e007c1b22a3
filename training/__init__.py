"""How the embedded language model was made: data generators, training loop and export."""
