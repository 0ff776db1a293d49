"""Models to be better than: no change, linear scaling, a Jackson network."""
