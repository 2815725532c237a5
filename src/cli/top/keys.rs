//! The keys: each changes the state of the view, or asks for an act.

use domain::act::ActReason;
use domain::service_pause::ServicePart;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::act::{Act, LEVEL_LASTS, LOG, NodeName, part_of, target};
use super::model::TopModel;
use super::prompt::{Choice, Prompt, ReasonInput};
use super::row::TopRow;
use super::text::minute;

/// Rows of a page.
const PAGE: isize = 10;

/// Levels of the log, least first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// The effect of a key outside of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// There is none.
    None,
    /// The view ends.
    End,
    /// An act is sent.
    Send(Act, ActReason),
}

/// Handles a key.
pub fn press(model: &mut TopModel, key: KeyEvent) -> Effect {
    if key.kind == KeyEventKind::Release {
        return Effect::None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && key.code == KeyCode::Char('c') {
        return Effect::End;
    }
    let is_refused = model.notice.as_ref().is_some_and(|notice| notice.is_bad);
    if is_refused && matches!(key.code, KeyCode::Char(_)) {
        // The reason that a person types for a refused act must not act by its letters.
        return Effect::None;
    }
    model.notice = None;
    if is_refused && matches!(key.code, KeyCode::Enter | KeyCode::Esc) {
        return Effect::None;
    }
    match std::mem::take(&mut model.prompt) {
        Prompt::None => return on_rows(model, key.code),
        Prompt::Help => {}
        Prompt::Waiting(what) => {
            model.prompt = Prompt::Waiting(what);
            model.refuse("the answer to the last act is awaited");
        }
        Prompt::Filter => on_filter(model, key.code, is_control),
        Prompt::Choice(choice) => on_choice(model, choice, key.code),
        Prompt::Reason(input) => return on_reason(model, input, key.code, is_control),
        Prompt::Confirm(reload) => match key.code {
            KeyCode::Enter => return sent(model, Act::Reload(reload.node), reload.reason),
            KeyCode::Esc => {}
            _ => model.prompt = Prompt::Confirm(reload),
        },
    }
    Effect::None
}

/// Sends an act; until its answer no other one is sent.
fn sent(model: &mut TopModel, act: Act, reason: ActReason) -> Effect {
    model.prompt = Prompt::Waiting(act.sentence());
    Effect::Send(act, reason)
}

fn on_rows(model: &mut TopModel, code: KeyCode) -> Effect {
    match code {
        KeyCode::Char('Q') => return Effect::End,
        KeyCode::Up | KeyCode::Char('k') => model.move_by(-1),
        KeyCode::Down | KeyCode::Char('j') => model.move_by(1),
        KeyCode::PageUp if model.has_detail => model.detail_from = model.detail_from.saturating_sub(5),
        KeyCode::PageDown if model.has_detail => model.detail_from += 5,
        KeyCode::PageUp => model.move_by(-PAGE),
        KeyCode::PageDown => model.move_by(PAGE),
        KeyCode::Home => model.move_by(isize::MIN),
        KeyCode::End => model.move_by(isize::MAX),
        KeyCode::Enter => (model.has_detail, model.detail_from) = (!model.has_detail, 0),
        KeyCode::Esc if model.samples.is_some() => model.samples = None,
        KeyCode::Esc if model.has_detail => model.has_detail = false,
        KeyCode::Esc => {
            model.filter.clear();
            model.arrange();
        }
        KeyCode::Char('s') => {
            model.order = model.order.next();
            model.arrange();
        }
        KeyCode::Char('/') => model.prompt = Prompt::Filter,
        KeyCode::Char('?') => model.prompt = Prompt::Help,
        KeyCode::Char(letter @ ('r' | 'q' | 'p' | 'd' | 'l' | 't' | 'R')) => ask(model, letter),
        _ => {}
    }
    Effect::None
}

/// Asks for the reason of the act of a letter, or first for one of several acts.
fn ask(model: &mut TopModel, letter: char) {
    let Some(row) = model.selected_row().cloned() else {
        return model.refuse("there is no row to act on");
    };
    let act = match letter {
        'p' => return model.prompt = Prompt::Choice(pauses(model, &row)),
        'l' => return model.prompt = Prompt::Choice(levels(model, &row)),
        't' => Ok(Act::Tap),
        'r' => Act::restart(&row),
        'q' => Act::quarantine_or_release(&row),
        'd' => Ok(Act::drain_or_undrain(&row, model.selected_node())),
        _ => Ok(Act::PreviewReload(NodeName::of(&row))),
    };
    match act {
        Ok(act) => model.prompt = Prompt::Reason(ReasonInput::of(act)),
        Err(refusal) => model.refuse(refusal),
    }
}

/// The pauses in force, which can be ended, and the parts that can be paused. The part of the selected row is selected.
fn pauses(model: &TopModel, row: &TopRow) -> Choice {
    let in_force = model.snapshot.iter().flat_map(|snapshot| &snapshot.cluster.pauses);
    let now = model.snapshot.as_ref().map(|snapshot| snapshot.at);
    let until = |text: &str| now.map(|now| minute(text, now)).unwrap_or_default();
    let ends = in_force.clone().map(|pause| {
        let words = format!(
            "end the pause of {} until {} by {}: {}",
            target(pause),
            until(&pause.until),
            pause.set_by,
            pause.reason.as_str()
        );
        (words, Act::resume(pause))
    });
    let is_free = |part: &ServicePart| {
        *part != ServicePart::Actor
            && !in_force.clone().any(|pause| pause.scope == "all" && pause.part == part.as_str())
    };
    let parts = ServicePart::ALL.iter().copied().filter(is_free);
    let pauses = parts.map(|part| (format!("pause {}", part.as_str()), Act::Pause(part)));
    let options: Vec<(String, Act)> = ends.chain(pauses).collect();
    let part = part_of(&row.kind);
    let fits = |act: &Act| match act {
        Act::Pause(of) => Some(*of) == part,
        Act::Resume(_, target, _) => part.is_some_and(|part| part.as_str() == target),
        _ => false,
    };
    let selected = options.iter().position(|(_, act)| fits(act)).unwrap_or_default();
    Choice { title: "Pause a part of the service on all nodes, or end a pause".to_owned(), options, selected }
}

/// The levels of the log of the selected row's node, and the ends of overrides that it has.
fn levels(model: &TopModel, row: &TopRow) -> Choice {
    let node = NodeName::of(row);
    let overrides = model.snapshot.iter().flat_map(|snapshot| &snapshot.cluster.overrides);
    let of_log = overrides.filter(|entry| entry.path == LOG);
    let of_node = of_log.filter(|entry| entry.node.as_ref().is_none_or(|host| *host == node.host));
    let ends = of_node.map(|entry| {
        let place = entry.node.as_deref().unwrap_or("all nodes");
        let words = format!("end the override of {place}: {}, set by {}", entry.value, entry.set_by);
        (words, Act::LevelEnd(entry.node.clone()))
    });
    let ends: Vec<(String, Act)> = ends.collect();
    let level = |level: &'static str| (format!("{level} for {LEVEL_LASTS}"), Act::Level(node.clone(), level));
    let selected = if ends.is_empty() { LEVELS.len() - 2 } else { 0 };
    let options = ends.into_iter().chain(LEVELS.into_iter().map(level)).collect();
    Choice { title: format!("Level of the log of {} ({LOG})", row.node), options, selected }
}

fn on_filter(model: &mut TopModel, code: KeyCode, is_control: bool) {
    match code {
        KeyCode::Enter => return,
        KeyCode::Esc => {
            model.filter.clear();
            return model.arrange();
        }
        code => edit(&mut model.filter, code, is_control),
    }
    model.prompt = Prompt::Filter;
    model.arrange();
}

fn on_choice(model: &mut TopModel, mut choice: Choice, code: KeyCode) {
    match code {
        KeyCode::Esc => return,
        KeyCode::Enter => {
            if let Some(act) = choice.act() {
                model.prompt = Prompt::Reason(ReasonInput::of(act.clone()));
            }
            return;
        }
        KeyCode::Up | KeyCode::Char('k') => choice.moved(-1),
        KeyCode::Down | KeyCode::Char('j') => choice.moved(1),
        _ => {}
    }
    model.prompt = Prompt::Choice(choice);
}

fn on_reason(model: &mut TopModel, mut input: ReasonInput, code: KeyCode, is_control: bool) -> Effect {
    match code {
        KeyCode::Esc => return Effect::None,
        KeyCode::Enter => {
            if let Some(reason) = input.entered() {
                return sent(model, input.act, reason);
            }
        }
        code => {
            edit(&mut input.text, code, is_control);
            input.mistake = None;
        }
    }
    model.prompt = Prompt::Reason(input);
    Effect::None
}

/// Changes the end of a line: characters are added, Backspace removes one, Ctrl-U all.
fn edit(line: &mut String, code: KeyCode, is_control: bool) {
    match code {
        KeyCode::Char('u') if is_control => line.clear(),
        KeyCode::Char(letter) if !is_control && line.chars().count() < ActReason::CHARACTERS_MAX => line.push(letter),
        KeyCode::Backspace => drop(line.pop()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{BUSY, CRASHED, model, node, pause};
    use super::super::send::ActAnswer;
    use super::*;
    use commands::failure::Failure;

    fn typed(model: &mut TopModel, keys: &str) -> Effect {
        let mut effect = Effect::None;
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\u{8}' => KeyCode::Backspace,
                letter => KeyCode::Char(letter),
            };
            effect = press(model, KeyEvent::new(code, KeyModifiers::NONE));
        }
        effect
    }

    fn select(model: &mut TopModel, name: &str) {
        let place = model.rows().iter().position(|row| row.name() == name).unwrap_or_else(|| panic!("no {name}"));
        model.move_by(isize::MIN);
        model.move_by(isize::try_from(place).unwrap());
    }

    fn reason(text: &str) -> ActReason {
        text.parse().unwrap()
    }

    #[test]
    fn an_act_is_sent_with_a_reason_and_its_answer_is_shown() {
        let mut model = model(1, &[]);
        select(&mut model, &format!("claims:{CRASHED}"));
        assert_eq!(typed(&mut model, "q"), Effect::None);
        assert_eq!(typed(&mut model, "\n"), Effect::None, "without a reason nothing is sent");
        assert!(matches!(&model.prompt, Prompt::Reason(ReasonInput { mistake: Some(_), .. })));
        let key = format!("claims:{CRASHED}").parse().unwrap();
        let sent = Effect::Send(Act::Release(key), reason("it is mended"));
        assert_eq!(typed(&mut model, "it is mendedx\u{8}\n"), sent, "a quarantined key is released");
        assert_eq!(typed(&mut model, "r"), Effect::None, "no second act is sent before the answer");
        let refusal = "claims is paused until noon by token (desk)\n  `--replace` takes it over";
        model.answered(Err(Failure::refused(refusal)), reason("it is mended"));
        assert_eq!(model.notice.as_ref().map(|notice| (notice.text.as_str(), notice.is_bad)), Some((refusal, true)));
        assert_eq!(typed(&mut model, "rQthe reason of a refused act\n"), Effect::None, "its letters do not act");
        assert_eq!((&model.prompt, &model.notice), (&Prompt::None, &None));
        select(&mut model, &format!("claims:{BUSY}"));
        let key = format!("claims:{BUSY}").parse().unwrap();
        assert_eq!(typed(&mut model, "qa look\n"), Effect::Send(Act::Quarantine(key), reason("a look")));
        model.answered(Ok(ActAnswer::Done("it is refused".to_owned())), reason("a look"));
        assert!(model.notice.is_some_and(|notice| !notice.is_bad) && model.prompt == Prompt::None);
    }

    #[test]
    fn each_letter_acts_on_the_selected_row() {
        let mut model = model(2, &[]);
        let node = |nth: usize, host: &str| NodeName { id: node(nth), host: host.to_owned() };
        let acts = [
            ("claims", "rwhy\n", Act::RestartActor(node(0, "oak"), "claims".to_owned())),
            ("sequence", "dwhy\n", Act::Drain(node(0, "oak"))),
            ("sequence", "Rwhy\n", Act::PreviewReload(node(0, "oak"))),
            ("intake", "p\nwhy\n", Act::Pause(ServicePart::Intake)),
            ("intake", "l\nwhy\n", Act::Level(node(0, "oak"), "debug")),
            ("intake", "ljkkk\nwhy\n", Act::Level(node(0, "oak"), "warn")),
        ];
        for (row, keys, act) in acts {
            select(&mut model, row);
            assert_eq!(typed(&mut model, keys), Effect::Send(act, reason("why")), "{row} {keys:?}");
            model.answered(Ok(ActAnswer::Done(String::new())), reason("why"));
        }
        let of_elm = model.rows().iter().position(|row| row.node == "elm").unwrap();
        model.move_by(isize::MIN);
        model.move_by(isize::try_from(of_elm).unwrap());
        let undrain = Effect::Send(Act::Undrain(node(1, "elm")), reason("why"));
        assert_eq!(typed(&mut model, "dwhy\n"), undrain, "elm is drained already");
        model.answered(Ok(ActAnswer::Done(String::new())), reason("why"));
        assert_eq!(typed(&mut model, "q"), Effect::None);
        assert!(model.notice.is_some_and(|notice| notice.is_bad), "an actor without keys is not quarantined");
    }

    #[test]
    fn a_pause_in_force_is_ended_by_the_key_that_starts_it() {
        let mut model = model(1, &[pause("intake", "all", "an attack"), pause("batches", "account:abc", "a loop")]);
        select(&mut model, "intake");
        typed(&mut model, "p");
        let Prompt::Choice(choice) = &model.prompt else { panic!("{:?}", model.prompt) };
        let words: Vec<&str> = choice.options.iter().map(|(words, _)| words.as_str()).collect();
        assert!(words[0].contains("token (desk)") && words[0].contains("an attack"), "{words:?}");
        assert!(!words.contains(&"pause intake") && words.contains(&"pause batches"), "{words:?}");
        let sent = typed(&mut model, "\nit has ended\n");
        assert!(matches!(&sent, Effect::Send(Act::Resume(_, target, _), _) if target == "intake"), "{sent:?}");
    }

    #[test]
    fn a_reload_is_shown_before_it_is_sent() {
        let mut model = model(1, &[]);
        let Effect::Send(Act::PreviewReload(oak), why) = typed(&mut model, "Rnew limits\n") else { panic!() };
        model.answered(Ok(ActAnswer::Preview(oak.clone(), "would change: a 1 → 2".to_owned())), why);
        assert_eq!(typed(&mut model, "x"), Effect::None, "only Enter confirms");
        assert_eq!(typed(&mut model, "\n"), Effect::Send(Act::Reload(oak), reason("new limits")));
    }

    #[test]
    fn escape_leaves_one_state_after_the_other() {
        let mut model = model(1, &[]);
        typed(&mut model, "/CLAIM\n");
        assert_eq!(model.rows().len(), 3, "the family and its keys");
        typed(&mut model, "\n");
        assert!(model.has_detail);
        typed(&mut model, "rwhy\u{1b}");
        assert!(model.prompt == Prompt::None && model.has_detail);
        typed(&mut model, "\u{1b}");
        assert!(!model.has_detail && model.filter == "CLAIM");
        typed(&mut model, "\u{1b}");
        assert_eq!((model.filter.as_str(), model.rows().len()), ("", 6));
        assert_eq!(typed(&mut model, "?"), Effect::None);
        assert_eq!(typed(&mut model, "Q"), Effect::None, "any key closes the help");
        assert_eq!(typed(&mut model, "Q"), Effect::End);
        typed(&mut model, "/");
        assert_eq!(press(&mut model, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Effect::End);
    }

    #[test]
    fn the_selection_stays_on_its_row_in_each_order() {
        let mut model = model(1, &[]);
        let names = |model: &TopModel| model.rows().iter().map(TopRow::name).collect::<Vec<_>>();
        let (busy, crashed) = (format!("claims:{BUSY}"), format!("claims:{CRASHED}"));
        assert_eq!(names(&model), ["claims", &busy, &crashed, "intake", "sequence", "janitor"]);
        select(&mut model, "sequence");
        typed(&mut model, "sss");
        assert_eq!(names(&model), ["sequence", "claims", &crashed, &busy, "intake", "janitor"], "by crashes");
        assert_eq!(model.selected_row().map(TopRow::name).as_deref(), Some("sequence"));
        model.read(Err(Failure::refused("no server answers at x: refused\n  advice")));
        assert_eq!((model.rows().len(), model.fault.as_deref()), (6, Some("no server answers at x: refused")));
    }
}
