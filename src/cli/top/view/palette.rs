//! Styles. Without colours every state is still a word, and the selection is reversed.

use ratatui::style::{Color, Modifier, Style};

/// Style of secondary information.
pub const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// Style of the selected row.
pub const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The styles of the view that have colours.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    has_colours: bool,
}

impl Palette {
    /// With colours, or only with bold, dim and reversed text.
    pub fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    fn coloured(self, colour: Color, otherwise: Modifier) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }

    /// A state that is as it should be.
    pub fn good(self) -> Style {
        self.coloured(Color::Green, Modifier::empty())
    }

    /// A state that needs attention.
    pub fn warning(self) -> Style {
        self.coloured(Color::Yellow, Modifier::BOLD)
    }

    /// A failure or a refusal.
    pub fn bad(self) -> Style {
        self.coloured(Color::Red, Modifier::BOLD)
    }

    /// Headings and keys.
    pub fn strong(self) -> Style {
        self.coloured(Color::Cyan, Modifier::empty()).add_modifier(Modifier::BOLD)
    }
}
