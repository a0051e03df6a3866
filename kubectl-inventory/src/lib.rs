//! The plugin that a person types.
