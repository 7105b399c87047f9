"""The developer's autotuner: launches around those in `launch`, ranked by their machine code and, on a device, by their time.

`python -m normbench.tuning`. Nothing else in the package imports it: what it finds is written down in `launch`, by hand.
"""
