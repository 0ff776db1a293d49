"""Models to be better than: no change, Caladrius's lines that bend, a Jackson network."""
