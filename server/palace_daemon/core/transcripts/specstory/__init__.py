"""SpecStory: markdown copies of what other agents said."""
