//! Additions to a tool's configuration file that leave all its other bytes unchanged, and their removal.

use std::fmt;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// Syntax of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Syntax {
    /// JSON; comments and trailing commas are kept.
    Json,
    /// TOML 1.1.
    Toml,
    /// A program text that attache wrote completely.
    Text,
}

/// One addition. A path names members from the root of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileEdit {
    /// A member of an object.
    Member(Vec<String>, Value),
    /// An element at the end of a list.
    Element(Vec<String>, Value),
    /// A member that the file requires; an existing one stays unchanged.
    Required(Vec<String>, Value),
    /// The whole file.
    Whole(String),
}

/// An addition that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAddition {
    /// The addition.
    pub edit: FileEdit,
    /// Paths of objects and lists that were created for it, the outer ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<Vec<String>>,
}

/// Why a file cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The file has another syntax.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A value on the path has another type.
    #[error("the value of {0} has another type than the tool documents")]
    Type(String),
    /// Another program wrote the member.
    #[error("{0} exists already, and `attache connect` did not write it: rename it, or replace it with --yes")]
    Taken(String),
}

/// The text with all edits, and the additions. `replaces`: a member with another value is replaced instead of refused.
pub fn apply(
    syntax: Syntax,
    text: Option<&str>,
    edits: &[FileEdit],
    replaces: bool,
) -> Result<(String, Vec<FileAddition>), EditError> {
    let text = text.filter(|text| !text.trim().is_empty());
    match syntax {
        Syntax::Json => json_apply(text.unwrap_or("{}\n"), edits, replaces),
        Syntax::Toml => toml_apply(text.unwrap_or_default(), edits, replaces),
        Syntax::Text => text_apply(text, edits, replaces),
    }
}

/// Result of [`remove`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The text without the additions.
    pub text: String,
    /// Paths of additions that other programs changed or removed since; they stay unchanged.
    pub changed: Vec<String>,
    /// Whether nothing but required members is left.
    pub is_empty: bool,
}

/// The text without the additions; an addition that was changed since stays.
pub fn remove(syntax: Syntax, text: &str, added: &[FileAddition]) -> Result<Removed, EditError> {
    match syntax {
        Syntax::Json => json_remove(text, added),
        Syntax::Toml => toml_remove(text, added),
        Syntax::Text => Ok(text_remove(text, added)),
    }
}

impl fmt::Display for FileEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(path, _) | Self::Element(path, _) | Self::Required(path, _) => f.write_str(&shown(path)),
            Self::Whole(_) => f.write_str("the file"),
        }
    }
}

fn shown(path: &[String]) -> String {
    if path.is_empty() { "the file".to_owned() } else { format!("\"{}\"", path.join(".")) }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

fn json_root(text: &str) -> Result<CstRootNode, EditError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    };
    CstRootNode::parse(text, &options).map_err(|error| EditError::Unreadable(error.to_string()))
}

fn json_apply(text: &str, edits: &[FileEdit], replaces: bool) -> Result<(String, Vec<FileAddition>), EditError> {
    let mark = text.starts_with(BYTE_ORDER_MARK);
    let root = json_root(text.trim_start_matches(BYTE_ORDER_MARK))?;
    let mut additions = Vec::new();
    for edit in edits {
        let mut made = Vec::new();
        match edit {
            FileEdit::Member(path, value) | FileEdit::Required(path, value) => {
                let Some((name, above)) = path.split_last() else { return Err(EditError::Type(shown(path))) };
                let object = json_object(&root, above, &mut made)?;
                let existing = object.get(name);
                let is_same = existing.as_ref().is_some_and(|existing| {
                    existing.value().and_then(|existing| existing.to_serde_value()).as_ref() == Some(value)
                });
                match existing {
                    Some(_) if matches!(edit, FileEdit::Required(..)) => continue,
                    Some(_) if is_same => {}
                    Some(existing) if replaces => existing.set_value(json_value(value)),
                    Some(_) => return Err(EditError::Taken(shown(path))),
                    None if matches!(edit, FileEdit::Required(..)) => {
                        object.insert(0, name, json_value(value));
                    }
                    None => {
                        object.append(name, json_value(value));
                    }
                }
            }
            FileEdit::Element(path, value) => {
                let Some((name, above)) = path.split_last() else { return Err(EditError::Type(shown(path))) };
                let object = json_object(&root, above, &mut made)?;
                if object.get(name).is_none() {
                    made.push(path.clone());
                }
                let list = object.array_value_or_create(name).ok_or_else(|| EditError::Type(shown(path)))?;
                if !list.elements().iter().any(|existing| existing.to_serde_value().as_ref() == Some(value)) {
                    list.ensure_multiline();
                    list.append(json_value(value));
                }
            }
            FileEdit::Whole(_) => return Err(EditError::Type(shown(&[]))),
        }
        additions.push(FileAddition { edit: edit.clone(), made });
    }
    let text = root.to_string();
    Ok((if mark { format!("{BYTE_ORDER_MARK}{text}") } else { text }, additions))
}

/// The object at a path; missing objects are created and added to `made`.
fn json_object(root: &CstRootNode, path: &[String], made: &mut Vec<Vec<String>>) -> Result<CstObject, EditError> {
    let mut object = root.object_value_or_create().ok_or_else(|| EditError::Type(shown(&[])))?;
    for (depth, name) in (1..).zip(path) {
        let here = path.get(..depth).unwrap_or(path);
        if object.get(name).is_none() {
            made.push(here.to_vec());
        }
        object = object.object_value_or_create(name).ok_or_else(|| EditError::Type(shown(here)))?;
    }
    Ok(object)
}

fn json_remove(text: &str, added: &[FileAddition]) -> Result<Removed, EditError> {
    let mark = text.starts_with(BYTE_ORDER_MARK);
    let root = json_root(text.trim_start_matches(BYTE_ORDER_MARK))?;
    let mut changed = Vec::new();
    for FileAddition { edit, .. } in added {
        let is_removed = match edit {
            FileEdit::Member(path, value) => json_at(&root, path).is_some_and(|(object, name)| {
                let existing = object.get(name);
                let is_same = |existing: &jsonc_parser::cst::CstObjectProp| {
                    existing.value().and_then(|existing| existing.to_serde_value()).as_ref() == Some(value)
                };
                existing.filter(is_same).map(jsonc_parser::cst::CstObjectProp::remove).is_some()
            }),
            FileEdit::Element(path, value) => json_at(&root, path).is_some_and(|(object, name)| {
                let list = object.array_value(name).map(|list| list.elements()).unwrap_or_default();
                let existing = list.into_iter().find(|existing| existing.to_serde_value().as_ref() == Some(value));
                existing.map(jsonc_parser::cst::CstNode::remove).is_some()
            }),
            FileEdit::Required(..) | FileEdit::Whole(_) => continue,
        };
        if !is_removed {
            changed.push(edit.to_string());
        }
    }
    let made = added.iter().rev().flat_map(|added| added.made.iter().rev());
    for path in made {
        let Some((object, name)) = json_at(&root, path) else { continue };
        let Some(property) = object.get(name) else { continue };
        let value = property.value().and_then(|value| value.to_serde_value());
        if matches!(&value, Some(Value::Object(members)) if members.is_empty())
            || matches!(&value, Some(Value::Array(elements)) if elements.is_empty())
        {
            property.remove();
        }
    }
    let required: Vec<&str> = added
        .iter()
        .filter_map(|added| match &added.edit {
            FileEdit::Required(path, _) => path.last().map(String::as_str),
            _ => None,
        })
        .collect();
    let left = root.to_serde_value();
    let is_empty =
        matches!(&left, Some(Value::Object(members)) if members.keys().all(|name| required.contains(&name.as_str())));
    let text = root.to_string();
    Ok(Removed { text: if mark { format!("{BYTE_ORDER_MARK}{text}") } else { text }, changed, is_empty })
}

/// The object that contains the last name of a path; `None` if an object is missing.
fn json_at<'p>(root: &CstRootNode, path: &'p [String]) -> Option<(CstObject, &'p str)> {
    let (name, above) = path.split_last()?;
    let mut object = root.object_value()?;
    for name in above {
        object = object.object_value(name)?;
    }
    Some((object, name))
}

/// A value with its members in the order of the tools' documentation.
fn json_value(value: &Value) -> CstInputValue {
    /// Members that come first, in this order.
    const FIRST: [&str; 6] = ["type", "matcher", "command", "bash", "args", "hooks"];
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(elements) => CstInputValue::Array(elements.iter().map(json_value).collect()),
        Value::Object(members) => {
            let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
            let mut members: Vec<_> = members.iter().map(|(name, value)| (name.clone(), json_value(value))).collect();
            members.sort_by_key(|(name, _)| rank(name));
            CstInputValue::Object(members)
        }
    }
}

fn toml_document(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Unreadable(error.message().to_owned()))
}

fn toml_apply(text: &str, edits: &[FileEdit], replaces: bool) -> Result<(String, Vec<FileAddition>), EditError> {
    let mut document = toml_document(text)?;
    let mut additions = Vec::new();
    for edit in edits {
        let FileEdit::Member(path, value) = edit else { return Err(EditError::Type(edit.to_string())) };
        let Some((name, above)) = path.split_last() else { return Err(EditError::Type(shown(path))) };
        let mut made = Vec::new();
        let is_first = document.as_table().is_empty();
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for (depth, name) in (1..).zip(above) {
            let here = above.get(..depth).unwrap_or(above);
            if table.get(name).is_none() {
                let mut new = Table::new();
                new.set_implicit(true);
                table.insert(name, Item::Table(new));
                made.push(here.to_vec());
            }
            let next = table.get_mut(name).and_then(Item::as_table_like_mut);
            table = next.ok_or_else(|| EditError::Type(shown(here)))?;
        }
        let mut new = toml_table(value).ok_or_else(|| EditError::Type(shown(path)))?;
        match table.get(name) {
            Some(known) if toml_value(known).as_ref() == Some(value) => {}
            Some(_) if !replaces => return Err(EditError::Taken(shown(path))),
            _ => {
                new.decor_mut().set_prefix(if is_first { "" } else { "\n" });
                table.insert(name, Item::Table(new));
            }
        }
        additions.push(FileAddition { edit: edit.clone(), made });
    }
    Ok((document.to_string(), additions))
}

fn toml_remove(text: &str, added: &[FileAddition]) -> Result<Removed, EditError> {
    let mut document = toml_document(text)?;
    let mut changed = Vec::new();
    for FileAddition { edit, made } in added {
        let FileEdit::Member(path, value) = edit else { continue };
        let existing = toml_at(&mut document, path)
            .filter(|(table, name)| table.get(name).and_then(toml_value).as_ref() == Some(value));
        match existing {
            Some((table, name)) => {
                table.remove(name);
            }
            None => changed.push(edit.to_string()),
        }
        for path in made.iter().rev() {
            if let Some((table, name)) = toml_at(&mut document, path)
                && table.get(name).and_then(Item::as_table_like).is_some_and(TableLike::is_empty)
            {
                table.remove(name);
            }
        }
    }
    let is_empty = document.as_table().is_empty();
    Ok(Removed { text: document.to_string(), changed, is_empty })
}

/// The table that contains the last name of a path; `None` if a table is missing.
fn toml_at<'d, 'p>(document: &'d mut DocumentMut, path: &'p [String]) -> Option<(&'d mut dyn TableLike, &'p str)> {
    let (name, above) = path.split_last()?;
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for name in above {
        table = table.get_mut(name)?.as_table_like_mut()?;
    }
    Some((table, name))
}

/// A table of texts and lists of texts; `None` for other values.
fn toml_table(value: &Value) -> Option<Table> {
    /// Members that come first, in this order.
    const FIRST: [&str; 2] = ["command", "args"];
    let mut members: Vec<_> = value.as_object()?.iter().collect();
    members.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let mut table = Table::new();
    for (name, value) in members {
        let value: toml_edit::Value = match value {
            Value::String(text) => text.as_str().into(),
            Value::Array(elements) => {
                let texts: Option<Vec<&str>> = elements.iter().map(Value::as_str).collect();
                toml_edit::Array::from_iter(texts?).into()
            }
            _ => return None,
        };
        table.insert(name, toml_edit::value(value));
    }
    Some(table)
}

/// The same as JSON; `None` for values that [`toml_table`] never writes.
fn toml_value(item: &Item) -> Option<Value> {
    let table = item.as_table_like()?;
    let mut members = serde_json::Map::new();
    for (name, item) in table.iter() {
        let value = match item.as_value()? {
            toml_edit::Value::String(text) => Value::from(text.value().as_str()),
            toml_edit::Value::Array(elements) => {
                Value::Array(elements.iter().map(|element| element.as_str().map(Value::from)).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        members.insert(name.to_owned(), value);
    }
    Some(Value::Object(members))
}

fn text_apply(
    text: Option<&str>,
    edits: &[FileEdit],
    replaces: bool,
) -> Result<(String, Vec<FileAddition>), EditError> {
    let [FileEdit::Whole(new)] = edits else { return Err(EditError::Type(shown(&[]))) };
    if text.is_some_and(|text| text != new) && !replaces {
        return Err(EditError::Taken(shown(&[])));
    }
    Ok((new.clone(), vec![FileAddition { edit: FileEdit::Whole(new.clone()), made: Vec::new() }]))
}

fn text_remove(text: &str, added: &[FileAddition]) -> Removed {
    let is_ours = added.iter().any(|added| matches!(&added.edit, FileEdit::Whole(whole) if whole == text));
    if is_ours {
        return Removed { text: String::new(), changed: Vec::new(), is_empty: true };
    }
    Removed { text: text.to_owned(), changed: vec![shown(&[])], is_empty: false }
}
