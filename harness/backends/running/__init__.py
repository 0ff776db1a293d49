"""Storm clusters that others run: asked, used for one topology, and left as they were."""
