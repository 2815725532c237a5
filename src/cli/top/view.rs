//! Draws the state of the view.

mod columns;
mod detail;
mod header;
mod palette;
mod panel;

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, HighlightSpacing, Paragraph, Table, TableState};

pub use self::palette::Palette;
use self::palette::{FAINT, SELECTED};
use super::model::TopModel;
use super::prompt::Prompt;
use super::text::wrapped;

/// Smallest window, in columns and lines.
const SMALLEST: (u16, u16) = (60, 16);

/// Lines of the table that remain above the detail and the prompt.
const ROWS_MIN: u16 = 4;

/// The state of the window, which the model does not need.
#[derive(Debug)]
pub struct TopView {
    palette: Palette,
    table: TableState,
}

impl TopView {
    /// With these styles.
    pub fn new(palette: Palette) -> Self {
        Self { palette, table: TableState::new() }
    }

    /// Draws the model. `age` is the time since the data was read; `None` if there is none.
    pub fn draw(&mut self, frame: &mut Frame<'_>, model: &TopModel, age: Option<Duration>) {
        let area = frame.area();
        if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
            let text = format!("the window is too small: {} × {} at least", SMALLEST.0, SMALLEST.1);
            let lines = wrapped(&text, usize::from(area.width));
            return frame.render_widget(Paragraph::new(lines.join("\n")), area);
        }
        let width = usize::from(area.width);
        let panel = panel::lines(model, width, self.palette);
        let panel_height = height(panel.len(), area.height - 3 - ROWS_MIN);
        let layout =
            [Constraint::Length(2), Constraint::Fill(1), Constraint::Length(panel_height), Constraint::Length(1)];
        let [top, body, below, keys] = Layout::vertical(layout).areas(area);
        let header = vec![
            header::first(model.snapshot.as_ref(), width, self.palette),
            header::second(model, age, width, self.palette),
        ];
        frame.render_widget(Paragraph::new(header), top);
        // The end of a long panel is the input, or the answer.
        let hidden = u16::try_from(panel.len()).unwrap_or(u16::MAX).saturating_sub(panel_height);
        frame.render_widget(Paragraph::new(panel).scroll((hidden, 0)), below);
        frame.render_widget(Paragraph::new(panel::keys(model, width, self.palette)), keys);
        if model.prompt == Prompt::Help {
            let help = panel::HELP.map(Line::from).to_vec();
            return frame.render_widget(Paragraph::new(help), body);
        }
        self.draw_rows(frame, model, body);
    }

    fn draw_rows(&mut self, frame: &mut Frame<'_>, model: &TopModel, body: Rect) {
        let samples = model.samples.as_ref();
        let lines = match samples {
            Some(samples) if samples.is_empty() => vec!["no event yet".to_owned()],
            Some(samples) => samples.iter().cloned().collect(),
            None if model.has_detail => detail::lines(model),
            None => Vec::new(),
        };
        let lines: Vec<String> = lines.iter().flat_map(|line| wrapped(line, usize::from(body.width))).collect();
        let detail_height =
            if lines.is_empty() { 0 } else { height(lines.len() + 1, body.height.saturating_sub(ROWS_MIN)) };
        let [rows, detail] = Layout::vertical([Constraint::Fill(1), Constraint::Length(detail_height)]).areas(body);
        let has_nodes = model.snapshot.as_ref().is_some_and(|snapshot| snapshot.trees.len() > 1);
        let columns = columns::fitting(rows.width, has_nodes);
        let table = Table::new(
            model.rows().iter().map(|row| columns::line(row, &columns, self.palette)),
            columns::constraints(&columns),
        );
        let table = table
            .header(columns::headings(&columns, self.palette))
            .column_spacing(1)
            .highlight_symbol("▸ ")
            .highlight_spacing(HighlightSpacing::Always)
            .row_highlight_style(SELECTED);
        self.table.select((!model.rows().is_empty()).then_some(model.selected()));
        frame.render_stateful_widget(table, rows, &mut self.table);
        if detail_height > 0 {
            let shown = usize::from(detail_height - 1);
            let last = lines.len().saturating_sub(shown);
            let from = if samples.is_some() { last } else { model.detail_from.min(last) };
            let title = match samples {
                Some(_) => " events, newest last ",
                None if lines.len() > shown => " PgUp PgDn ",
                None => "",
            };
            let lines: Vec<Line<'_>> = lines[from..].iter().map(|line| Line::from(line.as_str())).collect();
            let block = Block::new().borders(Borders::TOP).title(title).border_style(FAINT);
            frame.render_widget(Paragraph::new(lines).block(block), detail);
        }
    }
}

fn height(lines: usize, max: u16) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX).min(max)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::style::Color;

    use super::super::act::Act;
    use super::super::prompt::ReasonInput;
    use super::super::sample::{CRASHED, REQUEST, model, pause};
    use super::*;
    use commands::failure::Failure;

    fn drawn(model: &TopModel, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut view = TopView::new(Palette::new(false));
        terminal.draw(|frame| view.draw(frame, model, Some(Duration::from_millis(300)))).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        assert!(buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset), "no colours");
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }

    /// Compares a screen with a file, which `UPDATE_GOLDEN=1` writes.
    #[track_caller]
    fn is_golden(name: &str, screen: &str) {
        let path = format!("{}/src/cli/top/view/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{screen}\n")).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        assert_eq!(format!("{screen}\n"), golden, "{path}");
    }

    #[test]
    fn rows_fit_a_window_of_80_columns() {
        let model = model(1, &[pause("intake", "all", "an attack")]);
        is_golden("rows-80x24", &drawn(&model, (80, 24)));
    }

    #[test]
    fn a_wide_window_has_all_columns() {
        let pauses = [pause("intake", "all", "an attack"), pause("actor", &format!("claims:{CRASHED}"), "its row")];
        is_golden("nodes-120x40", &drawn(&model(2, &pauses), (120, 40)));
    }

    #[test]
    fn the_detail_names_key_request_and_error() {
        let mut model = model(1, &[]);
        model.move_by(2);
        model.has_detail = true;
        let screen = drawn(&model, (80, 24));
        for part in [&format!("claims:{CRASHED} on oak"), &format!("request {REQUEST}"), "failpoint claims.exchange"] {
            assert!(screen.contains(part), "{part:?} is missing:\n{screen}");
        }
        model.move_by(2);
        is_golden("detail-80x24", &drawn(&model, (80, 24)));
    }

    #[test]
    fn a_prompt_names_the_effect_before_it_is_sent() {
        let mut model = model(1, &[]);
        let key = format!("claims:{CRASHED}").parse().unwrap();
        let text = "the end of a reason that is longer than the window stays in view while it is typed: yes".to_owned();
        model.prompt = Prompt::Reason(ReasonInput { act: Act::Release(key), text, mistake: None });
        is_golden("prompt-60x16", &drawn(&model, (60, 16)));
        model.prompt = Prompt::Help;
        is_golden("help-60x16", &drawn(&model, (60, 16)));
        assert!(drawn(&model, (59, 16)).starts_with("the window is too small: 60 × 16 at least"));
        assert!(!drawn(&model, (1, 1)).is_empty());
    }

    #[test]
    fn the_second_line_says_how_old_the_data_is() {
        let mut model = model(1, &[]);
        model.read(Err(Failure::refused("no server answers at operator.sock")));
        let screen = drawn(&model, (80, 24));
        assert!(screen.contains("data of 0 s ago: no server answers at operator.sock"), "{screen}");
    }

    #[test]
    fn pauses_are_named_in_the_first_line_at_each_width() {
        let reason = "a very long reason ".repeat(9);
        let model = model(1, &[pause("intake", "lane:llm", &reason), pause("mail", "all", "a loop")]);
        for width in 60..200 {
            let screen = drawn(&model, (width, 16));
            let first = screen.lines().next().unwrap();
            assert!(first.contains("2 PAUSED: intake@lane:llm") && first.contains("mail"), "{width}: {first}");
        }
    }

    #[test]
    fn text_of_the_server_moves_no_cursor() {
        let model = model(1, &[pause("intake\u{1b}[2J", "all", "\u{202e}why")]);
        let screen = drawn(&model, (120, 24));
        assert!(screen.contains("intake [2J until") && !screen.contains(['\u{1b}', '\u{202e}']), "{screen}");
    }
}
