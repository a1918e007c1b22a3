"""The programs that train and calibrate the embedded models; README.md describes them."""
