//! Reads the configuration and reports all mistakes at once.
//!
//! The serialised default settings are the list of valid settings. Each value from a file or the environment is inserted into the
//! defaults separately and parsed; a value that does not fit is reported with its place and left out, and reading continues.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::Settings;

/// The prefix of environment variables.
pub const ENVIRONMENT_PREFIX: &str = "ATTACHE_";

/// A mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `config.toml:12`, or the name of an environment variable.
    pub place: String,
    /// Path of the setting, such as `http.bind`; empty if the text could not be parsed.
    pub path: String,
    /// The mistake, and a remedy.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, path, reason } = self;
        if path.is_empty() { write!(f, "{place}: {reason}") } else { write!(f, "{place}: {path}: {reason}") }
    }
}

/// All mistakes of one reading; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}")?;
        }
        let count = self.0.len();
        write!(f, "{count} configuration error{}", if count == 1 { "" } else { "s" })
    }
}

impl std::error::Error for Problems {}

/// A value from the file or the environment, and its place.
struct Given {
    place: String,
    path: Vec<String>,
    /// Possible values in the order of the attempts: an environment variable may contain TOML or plain text.
    readings: Vec<Value>,
}

/// A valid configuration with the places of its values.
#[derive(Debug, Clone)]
pub struct Layers {
    /// The file that was named on the command line.
    pub named: Option<PathBuf>,
    /// The settings that result.
    pub settings: Settings,
    /// Values of the file by their paths.
    pub file: BTreeMap<String, Value>,
    /// Values of the environment by their paths, which take precedence.
    pub environment: BTreeMap<String, Value>,
}

impl From<Settings> for Layers {
    /// Settings that come neither from a file nor from the environment.
    fn from(settings: Settings) -> Self {
        Self { named: None, settings, file: BTreeMap::new(), environment: BTreeMap::new() }
    }
}

/// Reads a file (`None`: `config.toml` in the working folder, if it exists) and the environment.
pub fn load(file: Option<&Path>, environment: impl Iterator<Item = (String, String)>) -> Result<Settings, Problems> {
    load_layers(file, environment).map(|layers| layers.settings)
}

/// The same, with the places of the values.
pub fn load_layers(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Layers, Problems> {
    let (path, required) = match file {
        Some(path) => (path.to_owned(), true),
        None => (PathBuf::from("config.toml"), false),
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => String::new(),
        Err(error) => {
            let reason = format!("cannot be read: {error}; name another file with --config");
            return Err(Problems(vec![Problem { place: path.display().to_string(), path: String::new(), reason }]));
        }
    };
    let layers = read_layers(&path.display().to_string(), &text, environment)?;
    Ok(Layers { named: file.map(Path::to_owned), ..layers })
}

/// Reads a value of one setting, which takes precedence over file and environment: TOML, or plain text. All rules are checked.
pub fn value_of(
    path: &str,
    text: &str,
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Value, Problems> {
    let name = environment_name(path);
    let others = environment.filter(|(other, _)| *other != name);
    let read = load_layers(file, others.chain([(name.clone(), text.to_owned())]));
    let mut layers = read.map_err(|Problems(mut problems)| {
        for problem in &mut problems {
            if problem.place == name {
                "the value".clone_into(&mut problem.place);
            }
        }
        Problems(problems)
    })?;
    let missing =
        || Problem { place: "the value".to_owned(), path: path.to_owned(), reason: "is not a setting".to_owned() };
    layers.environment.remove(path).ok_or_else(|| Problems(vec![missing()]))
}

/// Reads the text of a file named `name`, then the environment.
pub fn read(name: &str, text: &str, environment: impl Iterator<Item = (String, String)>) -> Result<Settings, Problems> {
    read_layers(name, text, environment).map(|layers| layers.settings)
}

fn read_layers(
    name: &str,
    text: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Layers, Problems> {
    let schema = schema();
    let mut problems = Vec::new();
    let mut given = from_file(name, text, &schema, &mut problems);
    let of_file = given.len();
    given.extend(from_environment(environment, &schema, &mut problems));

    let mut tree = Value::Object(Map::new());
    let mut layers = [BTreeMap::new(), BTreeMap::new()];
    for (number, value) in given.iter().enumerate() {
        if let Some(fitting) = value.readings.iter().find(|reading| tried(value, reading).is_ok()) {
            layers[usize::from(number >= of_file)].insert(value.path.join("."), fitting.clone());
            put(&mut tree, &value.path, fitting.clone());
        } else {
            let reason = value.readings.first().and_then(|reading| tried(value, reading).err()).unwrap_or_default();
            problems.push(Problem { place: value.place.clone(), path: value.path.join("."), reason });
        }
    }
    let settings = match together(tree) {
        Ok(settings) => settings,
        Err(reason) => {
            problems.push(Problem { place: name.to_owned(), path: String::new(), reason });
            return Err(Problems(problems));
        }
    };
    for (path, reason) in settings.problems() {
        let source = given.iter().rev().find(|value| is_within(&path, &value.path.join(".")));
        let place = source.map_or_else(|| name.to_owned(), |value| value.place.clone());
        problems.push(Problem { place, path, reason });
    }
    let [file, environment] = layers;
    if problems.is_empty() { Ok(Layers { named: None, settings, file, environment }) } else { Err(Problems(problems)) }
}

/// Parses all values together. Each value is valid by itself; an invalid combination is an error and must not silently become
/// defaults.
fn together(tree: Value) -> Result<Settings, String> {
    serde_json::from_value(tree).map_err(|error| format!("the values do not fit together: {error}"))
}

/// The JSON Pointer (RFC 6901) of a setting in a tree of settings.
pub fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Whether a path is a setting or section, or in it.
pub fn is_within(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The default settings as a tree: all settings with their default values. Optional values are `null`.
pub fn schema() -> Value {
    // Settings are plain structs, so serialisation does not fail; a test reads them back.
    serde_json::to_value(Settings::default()).unwrap_or_default()
}

/// Paths of all settings, in the order of the tree.
pub fn paths(schema: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, out: &mut Vec<String>) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (key, value) in members {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(value, &path, out);
                }
            }
            _ => out.push(path.to_owned()),
        }
    }
    let mut out = Vec::new();
    walk(schema, "", &mut out);
    out
}

/// The environment variable of a setting.
pub fn environment_name(path: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", path.to_uppercase().replace('.', "__"))
}

fn from_file(name: &str, text: &str, schema: &Value, problems: &mut Vec<Problem>) -> Vec<Given> {
    let line = |byte: usize| text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1;
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let place = error.span().map_or_else(|| name.to_owned(), |span| format!("{name}:{}", line(span.start)));
        problems.push(Problem { place, path: String::new(), reason: error.message().to_owned() });
    }
    let mut given = Vec::new();
    let mut rest = vec![(Vec::new(), table.into_inner())];
    while let Some((path, table)) = rest.pop() {
        for (key, value) in table {
            let place = format!("{name}:{}", line(key.span().start));
            let mut path: Vec<String> = path.clone();
            path.push(key.into_inner().into_owned());
            match (known(schema, &path), value.into_inner()) {
                (None, _) => problems.push(unknown(schema, place, &path)),
                (Some(Value::Object(_)), DeValue::Table(table)) => rest.push((path, table)),
                (Some(Value::Object(_)), _) => {
                    let reason = format!("is a section: write [{}]", path.join("."));
                    problems.push(Problem { place, path: path.join("."), reason });
                }
                (Some(_), value) => given.push(Given { place, path, readings: vec![json(value)] }),
            }
        }
    }
    given
}

fn from_environment(
    variables: impl Iterator<Item = (String, String)>,
    schema: &Value,
    problems: &mut Vec<Problem>,
) -> Vec<Given> {
    let mut given = Vec::new();
    for (name, text) in variables {
        // Every setting is in a section, so a name without `__` is not a setting.
        let Some(path) = name.strip_prefix(ENVIRONMENT_PREFIX).filter(|path| path.contains("__")) else { continue };
        let path = spelt(schema, path.split("__"));
        match known(schema, &path) {
            None => problems.push(unknown(schema, name, &path)),
            Some(Value::Object(_)) => {
                let reason = "is a section: set one of its settings".to_owned();
                problems.push(Problem { place: name, path: path.join("."), reason });
            }
            Some(_) => {
                let as_toml = DeValue::parse(text.trim()).ok().map(|value| json(value.into_inner()));
                let readings = as_toml.into_iter().chain([Value::String(text.clone())]).collect();
                given.push(Given { place: name, path, readings });
            }
        }
    }
    given
}

/// The path of a variable's name in the spelling of the settings: plans are in capitals, everything else in lower case.
fn spelt<'p>(schema: &Value, path: impl Iterator<Item = &'p str>) -> Vec<String> {
    let mut place = Some(schema);
    path.map(|key| {
        let members = place.and_then(Value::as_object);
        let entry = members.and_then(|members| members.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)));
        place = entry.map(|(_, value)| value);
        entry.map_or_else(|| key.to_lowercase(), |(name, _)| name.clone())
    })
    .collect()
}

/// Inserts one value into the defaults, and returns why it does not fit.
fn tried(given: &Given, reading: &Value) -> Result<(), String> {
    let mut tree = Value::Object(Map::new());
    put(&mut tree, &given.path, reading.clone());
    serde_json::from_value::<Settings>(tree).map(drop).map_err(|error| error.to_string())
}

fn put(tree: &mut Value, path: &[String], value: Value) {
    let mut place = tree;
    for key in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key.as_str()];
    }
    *place = value;
}

fn known<'s>(schema: &'s Value, path: &[String]) -> Option<&'s Value> {
    path.iter().try_fold(schema, |value, key| value.get(key))
}

fn unknown(schema: &Value, place: String, path: &[String]) -> Problem {
    let path = path.join(".");
    let sections = paths(schema).into_iter().flat_map(|candidate| {
        let ends = candidate.match_indices('.').map(|(at, _)| at).chain([candidate.len()]).collect::<Vec<_>>();
        ends.into_iter().map(move |end| candidate[..end].to_owned())
    });
    let nearest = sections.min_by_key(|candidate| strsim::damerau_levenshtein(candidate, &path));
    let near = nearest.filter(|candidate| strsim::damerau_levenshtein(candidate, &path) <= 3.max(path.len() / 3));
    let hint = near.map_or_else(
        || "see config.toml for what may be set".to_owned(),
        |candidate| format!("did you mean {candidate}?"),
    );
    Problem { place, path, reason: format!("is not a setting; {hint}") }
}

fn json(value: DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(float) => float.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Datetime(moment) => Value::String(moment.to_string()),
        DeValue::Array(items) => items.into_iter().map(|item| json(item.into_inner())).collect(),
        DeValue::Table(table) => {
            table.into_iter().map(|(key, value)| (key.into_inner().into_owned(), json(value.into_inner()))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Settings, Vec<String>> {
        read("config.toml", text, std::iter::empty())
            .map_err(|problems| problems.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_written_defaults_read_back_as_the_defaults() {
        assert_eq!(serde_json::from_value::<Settings>(schema()).unwrap(), Settings::default());
        assert_eq!(read_text("").unwrap(), Settings::default());
    }

    #[test]
    fn all_mistakes_are_shown_at_once_with_line_reason_and_way_out() {
        let text = "[http]\nbnd = \"127.0.0.1:1\"\nbind = \"nowhere\"\n\n[evnts]\nworkers = 1\n\n[events]\nworkers = \"many\"\nthird_party_agents = [\"one\"]\n";
        let mut problems = read_text(text).unwrap_err();
        problems.sort();
        assert_eq!(problems.len(), 5, "{problems:#?}");
        assert_eq!(problems[0], "config.toml:10: events.third_party_agents: exactly six different names are needed");
        assert_eq!(problems[1], "config.toml:2: http.bnd: is not a setting; did you mean http.bind?");
        assert!(problems[2].starts_with("config.toml:3: http.bind: "), "{}", problems[2]);
        assert_eq!(problems[3], "config.toml:5: evnts: is not a setting; did you mean events?");
        assert!(problems[4].starts_with("config.toml:9: events.workers: "), "{}", problems[4]);
    }

    #[test]
    fn settings_that_depend_on_each_other_are_compared() {
        let refused = |text: &str| read_text(text).unwrap_err().concat();
        let replica = refused("[database]\nreplica_url = \"postgres://there\"\n");
        assert!(replica.contains("database.replica_url: needs database.url"), "{replica}");
        let windows =
            |kept: u32| format!("[janitor.purge]\nusage_days_kept = \"{kept}days\"\n[plans.FREE]\nwindow_days = 60\n");
        assert!(refused(&windows(61)).contains("janitor.purge.usage_days_kept: must be at least"));
        assert!(read_text(&windows(62)).is_ok());
        assert!(refused("[janitor]\nevery = \"0s\"\n").contains("janitor.every: must be longer than 0s"));
        for (section, key) in [("webhooks", "look_every"), ("sessions", "valid_for"), ("knowledge.batch", "lease")] {
            let endless = refused(&format!("[{section}]\n{key} = \"99999999years\"\n"));
            assert!(endless.contains(&format!("{section}.{key}: must be at most 100 years")), "{endless}");
        }
    }

    #[test]
    fn a_data_folder_that_is_a_file_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for dir in [file.path().to_owned(), file.path().join("below")] {
            let refused = read_text(&format!("[data]\ndir = {dir:?}\n")).unwrap_err().concat();
            assert!(refused.contains("config.toml:2: data.dir: is a file, or below one"), "{refused}");
        }
        assert!(read_text("[data]\ndir = \"not/made/yet\"\n").is_ok());
    }

    #[test]
    fn the_environment_wins_over_the_file_and_may_be_plain_text() {
        let environment = [
            ("ATTACHE_HTTP__BIND", "127.0.0.1:9"),
            ("ATTACHE_EVENTS__WORKERS", "3"),
            ("ATTACHE_ACTORS__INTAKE__QUEUE_MAX", "5"),
            ("ATTACHE_TEST_ONLY", "1"),
            ("HOME", "/"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
        let settings = read("config.toml", "[events]\nworkers = 2\n", environment).unwrap();
        assert_eq!(settings.http.bind.port(), 9);
        assert_eq!(settings.events.workers, 3);
        assert_eq!(settings.actors.of(::actors::ActorKind::Intake).queue_max, 5);
        let wrong = [("ATTACHE_HTTP__BND".to_owned(), "x".to_owned())].into_iter();
        let problems = read("config.toml", "", wrong).unwrap_err();
        assert_eq!(problems.0[0].to_string(), "ATTACHE_HTTP__BND: http.bnd: is not a setting; did you mean http.bind?");
    }

    #[test]
    fn a_mistake_is_blamed_on_the_setting_itself_and_not_on_one_whose_name_begins_alike() {
        let environment = [("ATTACHE_SIGNIN__CODES_PER_HOUR".to_owned(), "5".to_owned())].into_iter();
        let problems = read("config.toml", "[signin]\ncodes_per_hour_total = 0\n", environment).unwrap_err();
        assert_eq!(problems.0[0].to_string(), "config.toml:2: signin.codes_per_hour_total: must be at least 1");
        assert!(is_within("signin.oidc", "signin") && is_within("signin", "signin") && !is_within("sign", "signin"));
    }

    #[test]
    fn values_that_do_not_fit_together_are_no_defaults() {
        let wrong = together(serde_json::json!({ "http": { "bind": 7 } })).unwrap_err();
        assert!(wrong.starts_with("the values do not fit together: "), "{wrong}");
    }

    #[test]
    fn a_text_that_is_no_toml_is_reported_with_its_line() {
        let problems = read_text("[http]\nbind = \n").unwrap_err();
        assert!(problems[0].starts_with("config.toml:2: "), "{problems:?}");
    }
}
