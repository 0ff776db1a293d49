"""The ``simulator`` cluster: a whole experiment in seconds, without servers, on a virtual clock.

Its runs have the files of a real one and are labelled as simulated everywhere; nothing in them was
measured.
"""
