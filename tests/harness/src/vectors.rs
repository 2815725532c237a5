//! Test vectors that are changes of one file (`tests/vectors/README.md`).

use serde_json::Value;

/// The file with the changes of a vector: each sets the value at a JSON pointer, or removes the member without a value.
///
/// # Panics
/// If a pointer leads nowhere.
pub fn changed(case: &Value, original: &Value) -> Value {
    let mut file = original.clone();
    for step in case["changes"].as_array().unwrap_or_else(|| panic!("{case}: no changes")) {
        let pointer = step["pointer"].as_str().unwrap_or_default();
        let (parent, name) = pointer.rsplit_once('/').unwrap_or_else(|| panic!("{pointer:?} is no pointer"));
        let parent = file.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} leads nowhere"));
        match (parent, step.get("value")) {
            (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value.clone())),
            (Value::Object(members), None) => drop(members.remove(name)),
            (Value::Array(values), Some(value)) => {
                let index: usize = name.parse().unwrap_or_else(|_| panic!("{name} is no index"));
                values[index] = value.clone();
            }
            (parent, value) => panic!("{parent} {value:?}"),
        }
    }
    file
}
