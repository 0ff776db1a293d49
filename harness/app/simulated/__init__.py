"""The ``simulator`` cluster: a whole experiment in seconds, without servers, on a virtual clock.

Its runs have the files of a measured one and are labelled as simulated wherever they are shown; nothing in
them was measured, so none is ever counted as valid.
"""
