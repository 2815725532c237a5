//! Schemas of the values in bodies: identifiers, closed lists of names, date-times. Each has one name in the
//! description, for all types that use it.

mod envelope;

use std::borrow::Cow;

use domain::api_key::ApiKeyScope;
use domain::claim::RegistrationType;
use domain::consent::{Author, ConsentLevel as Level};
use domain::filter::{CATEGORY_CHARS_MAX, ELEMENTS_MAX, ITEM_CHARS_MAX, PROMPT_CHARS_MAX};
use domain::memory::MemoryType as Kind;
use domain::registry::Tone;
use domain::space::{AccessType as Access, NAME_CHARS_MAX};
use domain::tool::Tool;
use domain::webhook::{DisabledWhy, NotificationKind as Notification};
use domain::{lane, usage};
use serde_json::Value;
use strum::VariantNames;
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

pub use self::envelope::EventEnvelope;

macro_rules! named {
    ($($(#[doc = $doc:literal])* $name:ident = $schema:expr;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = concat!($($doc),*).trim();
                $schema.description(Some(text)).build().into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*};
}

named! {
    /// A UUIDv7 in lower case.
    UuidV7 = text(r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
        .examples([Value::from("019b76da-a800-7a67-8a14-94a3f41b0634")]);
    /// A CUID2, an opaque identifier.
    Cuid2 = text("^[0-9a-z]{2,32}$").examples([Value::from("tz4a98xxat96iws9zmbrgj3a")]);
    /// A date-time, RFC 3339; responses use UTC with milliseconds.
    Moment = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples([Value::from("2026-01-01T00:00:00.000Z")]);
    /// SHA-256 in lower-case hex.
    Sha256 = text("^[0-9a-f]{64}$");
    /// Link of an event: the literal `GENESIS`, or the `self` of the previous event.
    Prev = text("^(GENESIS|[0-9a-f]{64})$");
    /// A position in a chain.
    Position = ObjectBuilder::new()
        .property("chain_epoch", place())
        .property("seq", place())
        .property("prev", named::<Prev>())
        .required("chain_epoch")
        .required("seq")
        .required("prev");
    /// Category of an event type.
    Lane = names::<lane::Lane>();
    /// How much may be recorded.
    ConsentLevel = names::<Level>();
    /// The party that set a consent level: a person in a browser, an agent of the account, or the computer itself.
    ConsentAuthor = names::<Author>();
    /// Plan of the account.
    Plan = names::<usage::Plan>();
    /// How an agent registered.
    RegistrationKind = names::<RegistrationType>();
    /// Tool of the agent.
    ToolName = names::<Tool>();
    /// Scope of an API key.
    KeyScope = names::<ApiKeyScope>();
    /// Kind of a notification.
    NotificationKind = names::<Notification>();
    /// How the work of an event went.
    RuleTone = names::<Tone>();
    /// A property of events with values that may be new.
    Novelty = names::<domain::rule::Novelty>();
    /// Why an endpoint is disabled: by its owner, because it responded with 410, because it failed for days, or by an operator.
    WebhookDisabledReason = names::<DisabledWhy>();
    /// Access of the caller's account to a space.
    AccessType = names::<Access>();
    /// Type of a memory.
    MemoryType = names::<Kind>();
    /// Content filter settings of an account.
    FilterSettings = ObjectBuilder::new()
        .property("categories", list(CATEGORY_CHARS_MAX, "The categories of kept content."))
        .property("filterPrompt", ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .max_length(Some(PROMPT_CHARS_MAX))
            .description(Some("The instruction to the language model that selects content.")))
        .property("includeItems", list(ITEM_CHARS_MAX, "Words and phrases of which content has to have one."))
        .property("excludeItems", list(ITEM_CHARS_MAX, "Words and phrases that content must not have."))
        .property("shouldLLMFilter", ObjectBuilder::new()
            .schema_type(Type::Boolean)
            .description(Some("Whether any of this is applied.")))
        .required("categories")
        .required("filterPrompt")
        .required("includeItems")
        .required("excludeItems")
        .required("shouldLLMFilter");
    /// A change of the filter settings. `null` and `[]` clear a setting; lengths are checked after trimming.
    FilterUpdate = ObjectBuilder::new()
        .property("categories", list_or_null(CATEGORY_CHARS_MAX))
        .property("filterPrompt", words_or_null(PROMPT_CHARS_MAX))
        .property("includeItems", list_or_null(ITEM_CHARS_MAX))
        .property("excludeItems", list_or_null(ITEM_CHARS_MAX))
        .property("shouldLLMFilter", ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::Boolean, Type::Null]))
            .default(Some(Value::from(false))));
}

/// A non-negative integer within the safe range of JSON numbers.
fn place() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(INTEGER_MAX))
}

/// 2^53 − 1: doubles represent every integer up to it.
const INTEGER_MAX: i64 = 9_007_199_254_740_991;

pub(crate) fn text(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn names<T: VariantNames>() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(T::VARIANTS.iter().copied()))
}

/// One of these strings.
pub(crate) fn words<const N: usize>(words: [&'static str; N]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
}

/// A string of at most `chars_max` characters that is not blank.
fn element(chars_max: usize) -> ObjectBuilder {
    text(r"\S").min_length(Some(1)).max_length(Some(chars_max))
}

fn list(chars_max: usize, what: &str) -> ArrayBuilder {
    ArrayBuilder::new().items(element(chars_max)).max_items(Some(ELEMENTS_MAX)).description(Some(what))
}

fn list_or_null(chars_max: usize) -> ArrayBuilder {
    ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .items(element(chars_max))
        .max_items(Some(ELEMENTS_MAX))
}

fn words_or_null(chars_max: usize) -> ObjectBuilder {
    element(chars_max).schema_type(SchemaType::from_iter([Type::String, Type::Null]))
}

macro_rules! always {
    ($($name:ident = $type:expr, $value:expr;)*) => {$(
        pub(crate) fn $name() -> Object {
            ObjectBuilder::new().schema_type($type).enum_values(Some([$value])).build()
        }
    )*};
}

always! {
    yes = Type::Boolean, true;
    version = Type::Integer, 1;
    attached = Type::String, "attached";
    claimed = Type::String, "claimed";
    bearer = Type::String, "Bearer";
    seconds_valid = Type::Integer, domain::device::CODE_SECONDS;
    interval = Type::Integer, domain::device::INTERVAL_SECONDS;
    device_grant = Type::String, crate::grant::DEVICE_GRANT;
}

macro_rules! scopes {
    ($($name:ident = $value:expr;)*) => {$(
        pub(crate) fn $name() -> RefOr<Schema> {
            let scope = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([$value]));
            Schema::from(ArrayBuilder::new().items(scope).build()).into()
        }
    )*};
}

scopes! {
    events_scopes = crate::grant::SCOPE_EVENTS;
    account_scopes = crate::grant::SCOPE_ACCOUNT;
}

pub(crate) fn six_digits() -> Object {
    text("^[0-9]{6}$").description(Some("Six digits.")).examples([Value::from("482913")]).build()
}

/// A name: 1 to 100 characters on one line, not all white space.
pub(crate) fn name() -> Object {
    named_by().schema_type(Type::String).build()
}

pub(crate) fn name_or_null() -> Object {
    named_by().schema_type(SchemaType::from_iter([Type::String, Type::Null])).build()
}

fn named_by() -> ObjectBuilder {
    let pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$";
    let text = "1 to 100 characters on one line, not all of them blanks.";
    let named = ObjectBuilder::new().pattern(Some(pattern)).min_length(Some(1)).max_length(Some(NAME_CHARS_MAX));
    named.description(Some(text))
}

/// A string in the format of an e-mail address.
pub(crate) fn email() -> Object {
    let format = Some(SchemaFormat::KnownFormat(KnownFormat::Email));
    let email = ObjectBuilder::new().schema_type(Type::String).format(format).description(Some("An e-mail address."));
    email.examples([Value::from("person@example.com")]).build()
}

pub(crate) fn uri() -> Object {
    ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::Custom("uri".into()))).build()
}

pub(crate) fn named<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}
