//! Operations of the store: their names in errors, in metrics and in spans.

use std::sync::OnceLock;
use std::time::Instant;

use futures_util::future::BoxFuture;
use metrics::Histogram;
use strum::{EnumCount, IntoStaticStr};
use tracing::Instrument;

use crate::error::{Context, StoreError};

/// A request to the database that is counted by itself: a statement or a transaction. The text is a verb and its object, for
/// "cannot attach a machine", and is the label `operation` of the metric `attache_store_seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumCount)]
#[expect(missing_docs, reason = "the text of each operation is its description")]
pub enum Operation {
    #[strum(serialize = "find chunks by their words")]
    FindChunksByTheirWords,
    #[strum(serialize = "make the table of near vectors")]
    MakeTableOfNearVectors,
    #[strum(serialize = "create a webhook")]
    CreateWebhook,
    #[strum(serialize = "list the webhooks of an account")]
    ListWebhooksOfAccount,
    #[strum(serialize = "read a webhook")]
    ReadWebhook,
    #[strum(serialize = "change a webhook")]
    ChangeWebhook,
    #[strum(serialize = "delete a webhook")]
    DeleteWebhook,
    #[strum(serialize = "write a notification")]
    WriteNotification,
    #[strum(serialize = "list the deliveries of a webhook")]
    ListDeliveriesOfWebhook,
    #[strum(serialize = "lease webhooks")]
    ListDueWebhooks,
    LeaseWebhooks,
    #[strum(serialize = "begin the try of a delivery")]
    BeginTryOfDelivery,
    #[strum(serialize = "end the try of a delivery")]
    EndTryOfDelivery,
    #[strum(serialize = "create a feed")]
    CreateFeed,
    #[strum(serialize = "read a feed")]
    ReadFeed,
    #[strum(serialize = "list the entries of a feed")]
    ListEntriesOfFeed,
    #[strum(serialize = "change a feed")]
    ChangeFeed,
    #[strum(serialize = "delete a feed")]
    DeleteFeed,
    #[strum(serialize = "add usage")]
    AddUsage,
    #[strum(serialize = "approve a device code")]
    ApproveDeviceCode,
    #[strum(serialize = "attach a machine")]
    AttachMachine,
    #[strum(serialize = "cancel a batch")]
    CancelBatch,
    #[strum(serialize = "count held events")]
    CountHeldEvents,
    #[strum(serialize = "start a new chain epoch of the outbox")]
    StartChainEpochOfOutbox,
    #[strum(serialize = "change the filter settings of an account")]
    ChangeFilterSettingsOfAccount,
    #[strum(serialize = "change some of the filter settings of an account")]
    ChangeSomeOfFilterSettingsOfAccount,
    #[strum(serialize = "change a space")]
    ChangeSpace,
    #[strum(serialize = "clean up after a removed computer")]
    CleanUpAfterRemovedComputer,
    #[strum(serialize = "complete a claim")]
    CompleteClaim,
    #[strum(serialize = "copy vectors for the database to compare")]
    CopyVectorsForDatabaseToCompare,
    #[strum(serialize = "count all rows")]
    CountAllRows,
    #[strum(serialize = "count the memories of an account")]
    CountMemoriesOfAccount,
    #[strum(serialize = "count the memories of a space")]
    CountMemoriesOfSpace,
    #[strum(serialize = "count a sign-in code")]
    CountSignInCode,
    #[strum(serialize = "count usage")]
    CountUsage,
    #[strum(serialize = "count the confirmations of an agent")]
    CountConfirmationsOfAgent,
    #[strum(serialize = "count words")]
    CountWords,
    #[strum(serialize = "count a wrong code")]
    CountWrongCode,
    #[strum(serialize = "add old usage of computers into one row")]
    FoldUsage,
    #[strum(serialize = "create a registration")]
    CreateRegistration,
    #[strum(serialize = "create a session")]
    CreateSession,
    #[strum(serialize = "delete expired rows")]
    DeleteExpiredRows,
    #[strum(serialize = "merge the index of words")]
    MergeWords,
    #[strum(serialize = "deny a device code")]
    DenyDeviceCode,
    #[strum(serialize = "detach a machine")]
    DetachMachine,
    #[strum(serialize = "discard a held event")]
    DiscardHeldEvent,
    #[strum(serialize = "close an account")]
    CloseAccount,
    #[strum(serialize = "list closed accounts")]
    ListClosedAccounts,
    #[strum(serialize = "delete contents of a closed account")]
    EmptyClosedAccount,
    #[strum(serialize = "edit consent levels")]
    EditConsent,
    #[strum(serialize = "name a computer")]
    NameComputer,
    #[strum(serialize = "name an agent")]
    NameAgent,
    #[strum(serialize = "list the ended computers of an account")]
    ListEndedComputersOfAccount,
    #[strum(serialize = "read usage by day")]
    ReadUsageByDay,
    #[strum(serialize = "end a batch")]
    EndBatch,
    #[strum(serialize = "end a device code")]
    EndDeviceCode,
    #[strum(serialize = "file a verdict")]
    FileVerdict,
    #[strum(serialize = "find an account by an address")]
    FindAccountByAddress,
    #[strum(serialize = "find chunks with common words")]
    FindChunksWithCommonWords,
    #[strum(serialize = "find chunks without a vector")]
    FindChunksWithoutVector,
    #[strum(serialize = "find the default space of an account")]
    FindDefaultSpaceOfAccount,
    #[strum(serialize = "find a machine by its secret")]
    FindMachineByItsSecret,
    #[strum(serialize = "find machines by their secrets")]
    FindMachinesByTheirSecrets,
    #[strum(serialize = "find near vectors")]
    FindNearVectors,
    #[strum(serialize = "find near vectors in spaces")]
    FindNearVectorsInSpaces,
    #[strum(serialize = "find the newest chunks of spaces")]
    FindNewestChunksOfSpaces,
    #[strum(serialize = "find the newest memories with common words")]
    FindNewestMemoriesWithCommonWords,
    #[strum(serialize = "find the public spaces of a memory")]
    FindPublicSpacesOfMemory,
    #[strum(serialize = "find a registration by its claim token")]
    FindRegistrationByItsClaimToken,
    #[strum(serialize = "find a session")]
    FindSession,
    #[strum(serialize = "find the shelves of a search")]
    FindShelvesOfSearch,
    #[strum(serialize = "find shelves without a graph")]
    FindShelvesWithoutGraph,
    #[strum(serialize = "find a token")]
    FindToken,
    #[strum(serialize = "find a typed code")]
    FindTypedCode,
    #[strum(serialize = "find the registration of an attempt")]
    FindRegistrationOfAttempt,
    #[strum(serialize = "follow the changes of a shelf")]
    FollowChangesOfShelf,
    #[strum(serialize = "forget a memory")]
    ForgetMemory,
    #[strum(serialize = "delete the usage of senders")]
    DeleteUsageOfSenders,
    #[strum(serialize = "get the key of short codes")]
    GetKeyOfShortCodes,
    #[strum(serialize = "give the installation an id")]
    GiveInstallationId,
    #[strum(serialize = "hold events")]
    HoldEvents,
    #[strum(serialize = "issue a token")]
    IssueToken,
    #[strum(serialize = "keep a memory")]
    KeepMemory,
    #[strum(serialize = "keep vectors")]
    KeepVectors,
    #[strum(serialize = "lease a batch")]
    LeaseBatch,
    #[strum(serialize = "end the lease of a batch")]
    EndLeaseOfBatch,
    #[strum(serialize = "list accounts")]
    ListAccounts,
    #[strum(serialize = "list agents")]
    ListAgents,
    #[strum(serialize = "list the agents of an account")]
    ListAgentsOfAccount,
    #[strum(serialize = "list API keys")]
    ListApiKeys,
    #[strum(serialize = "list the API keys of an account")]
    ListApiKeysOfAccount,
    #[strum(serialize = "list the batches of an account")]
    ListBatchesOfAccount,
    #[strum(serialize = "list orphaned batches")]
    ListOrphanedBatches,
    #[strum(serialize = "list the computers of an account")]
    ListComputersOfAccount,
    #[strum(serialize = "list device codes that changed")]
    ListDeviceCodesThatChanged,
    #[strum(serialize = "list the entries of a balance")]
    ListEntriesOfBalance,
    #[strum(serialize = "list held events")]
    ListHeldEvents,
    #[strum(serialize = "list the identities of an account")]
    ListIdentitiesOfAccount,
    #[strum(serialize = "list machines")]
    ListMachines,
    #[strum(serialize = "list memories")]
    ListMemories,
    #[strum(serialize = "list nodes")]
    ListNodes,
    #[strum(serialize = "listen for changes")]
    ListenForChanges,
    #[strum(serialize = "list people")]
    ListPeople,
    #[strum(serialize = "list registrations that changed")]
    ListRegistrationsThatChanged,
    #[strum(serialize = "list removed computers")]
    ListRemovedComputers,
    #[strum(serialize = "list the sessions of a person")]
    ListSessionsOfPerson,
    #[strum(serialize = "list the spaces of an account")]
    ListSpacesOfAccount,
    #[strum(serialize = "list unclassified events")]
    ListUnclassifiedEvents,
    #[strum(serialize = "list the verdicts of an account")]
    ListVerdictsOfAccount,
    #[strum(serialize = "list the identities in the outbox")]
    ListIdentitiesInOutbox,
    #[strum(serialize = "list the recorders of an account")]
    ListRecordersOfAccount,
    #[strum(serialize = "look a credential up")]
    LookCredentialUp,
    #[strum(serialize = "look up an API key")]
    LookUpApiKey,
    #[strum(serialize = "make an API key")]
    MakeApiKey,
    #[strum(serialize = "make the default space of an account")]
    MakeDefaultSpaceOfAccount,
    #[strum(serialize = "make the graph of a shelf")]
    MakeGraphOfShelf,
    #[strum(serialize = "make the signing keys")]
    MakeSigningKeys,
    #[strum(serialize = "make a space")]
    MakeSpace,
    #[strum(serialize = "mark a held event as released")]
    MarkHeldEventAsReleased,
    #[strum(serialize = "mark a space")]
    MarkSpace,
    #[strum(serialize = "delete a space")]
    DeleteSpace,
    #[strum(serialize = "edit a memory")]
    EditMemory,
    #[strum(serialize = "list the tags of an account")]
    ListTagsOfAccount,
    #[strum(serialize = "move a memory to the default space")]
    MoveMemoryToDefaultSpace,
    #[strum(serialize = "move a balance")]
    MoveBalance,
    #[strum(serialize = "mark a mail as not sent")]
    MarkMailAsNotSent,
    #[strum(serialize = "mark a mail as sent")]
    MarkMailAsSent,
    #[strum(serialize = "provision an account")]
    ProvisionAccount,
    #[strum(serialize = "take over leases of nodes that ended")]
    TakeOverLeases,
    #[strum(serialize = "remove a node")]
    RemoveNode,
    #[strum(serialize = "write a node")]
    WriteNode,
    #[strum(serialize = "read an account")]
    ReadAccount,
    #[strum(serialize = "read an API key")]
    ReadApiKey,
    #[strum(serialize = "read a batch")]
    ReadBatch,
    #[strum(serialize = "read consent")]
    ReadConsent,
    #[strum(serialize = "read the consent of an account")]
    ReadConsentOfAccount,
    #[strum(serialize = "read a device code")]
    ReadDeviceCode,
    #[strum(serialize = "read the filter settings of an account")]
    ReadFilterSettingsOfAccount,
    #[strum(serialize = "read a held event")]
    ReadHeldEvent,
    #[strum(serialize = "read the access to a batch")]
    ReadAccessToBatch,
    #[strum(serialize = "read how far usage is counted")]
    ReadHowFarUsageIsCounted,
    #[strum(serialize = "read an identity")]
    ReadIdentity,
    #[strum(serialize = "read an item of a batch")]
    ReadItemOfBatch,
    #[strum(serialize = "read the items of a batch")]
    ReadItemsOfBatch,
    #[strum(serialize = "read a machine")]
    ReadMachine,
    #[strum(serialize = "read memories")]
    ReadMemories,
    #[strum(serialize = "read the outbox")]
    ReadOutbox,
    #[strum(serialize = "read passages")]
    ReadPassages,
    #[strum(serialize = "read a person")]
    ReadPerson,
    #[strum(serialize = "read a registration")]
    ReadRegistration,
    #[strum(serialize = "read a sign-in ticket")]
    ReadSignInTicket,
    #[strum(serialize = "read the signing keys")]
    ReadSigningKeys,
    #[strum(serialize = "read the size of held events")]
    ReadSizeOfHeldEvents,
    #[strum(serialize = "read spaces")]
    ReadSpaces,
    #[strum(serialize = "read the texts of chunks")]
    ReadTextsOfChunks,
    #[strum(serialize = "read the titles of a batch")]
    ReadTitlesOfBatch,
    #[strum(serialize = "read the usage of a sender")]
    ReadUsageOfSender,
    #[strum(serialize = "read the installation id")]
    ReadInstallationId,
    #[strum(serialize = "register a machine")]
    RegisterMachine,
    #[strum(serialize = "release a held event")]
    ReleaseHeldEvent,
    #[strum(serialize = "remember a checkpoint of the log")]
    RememberCheckpointOfLog,
    #[strum(serialize = "remember the new log")]
    RememberNewLog,
    #[strum(serialize = "remove computers that were never attached")]
    RemoveComputersThatWereNeverAttached,
    #[strum(serialize = "remove a machine")]
    RemoveMachine,
    #[strum(serialize = "remove the held events of a removed computer")]
    RemoveHeldEventsOfRemovedComputer,
    #[strum(serialize = "revoke an API key")]
    RevokeApiKey,
    #[strum(serialize = "revoke the other sessions of a person")]
    RevokeOtherSessionsOfPerson,
    #[strum(serialize = "revoke a registration")]
    RevokeRegistration,
    #[strum(serialize = "revoke a session")]
    RevokeSession,
    #[strum(serialize = "revoke a session of a person")]
    RevokeSessionOfPerson,
    #[strum(serialize = "revoke a token")]
    RevokeToken,
    #[strum(serialize = "rotate the signing keys")]
    RotateSigningKeys,
    #[strum(serialize = "set consent")]
    SetConsent,
    #[strum(serialize = "set a plan")]
    SetPlan,
    #[strum(serialize = "share a space")]
    ShareSpace,
    #[strum(serialize = "sign a person in")]
    SignPersonIn,
    #[strum(serialize = "slide a session")]
    SlideSession,
    #[strum(serialize = "start the attachment of a machine")]
    StartAttachmentOfMachine,
    #[strum(serialize = "start a claim")]
    StartClaim,
    #[strum(serialize = "sum usage")]
    SumUsage,
    #[strum(serialize = "create a batch")]
    CreateBatch,
    #[strum(serialize = "queue a mail")]
    QueueMail,
    #[strum(serialize = "store a sign-in code")]
    StoreSignInCode,
    #[strum(serialize = "remove an event from the outbox")]
    RemoveEventFromOutbox,
    #[strum(serialize = "lease mails to send")]
    LeaseMailsToSend,
    #[strum(serialize = "remove a memory from spaces")]
    RemoveMemoryFromSpaces,
    #[strum(serialize = "use a sign-in code")]
    UseSignInCode,
    #[strum(serialize = "use an OpenID state")]
    UseOpenIdState,
    #[strum(serialize = "write a heartbeat")]
    WriteHeartbeat,
    #[strum(serialize = "write the last use of an API key")]
    WriteLastUseOfApiKey,
    #[strum(serialize = "write the outcome of an item")]
    WriteOutcomeOfItem,
    #[strum(serialize = "write the usage of senders")]
    WriteUsageOfSenders,
    #[strum(serialize = "write the last requests of machines")]
    WriteLastRequestsOfMachines,
}

/// Name of the histogram.
pub const SECONDS: &str = "attache_store_seconds";

static HISTOGRAMS: [OnceLock<Histogram>; Operation::COUNT] = [const { OnceLock::new() }; Operation::COUNT];

impl Operation {
    /// The text, as in errors and metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The handle is looked up once, after the recorder of metrics was installed: the server does that before it opens the store.
    fn histogram(self) -> &'static Histogram {
        let make = || metrics::histogram!(SECONDS, "operation" => self.as_str());
        HISTOGRAMS[self as usize].get_or_init(make)
    }
}

/// Names the operation of a request to the database, measures it, and runs it in a span at debug level.
pub trait During<'a, T>: Future<Output = Result<T, sqlx::Error>> + Send + Sized + 'a {
    /// Records the time until the outcome, good or bad. A future that is dropped before is not counted.
    ///
    /// The request is boxed: a future that awaits several of them would otherwise have the size of all of them, and the compiler would
    /// make the rest of this function for each of them.
    fn during(self, operation: Operation) -> impl Future<Output = Result<T, StoreError>> + Send {
        measured(Box::pin(self), operation)
    }
}

impl<'a, T, F: Future<Output = Result<T, sqlx::Error>> + Send + 'a> During<'a, T> for F {}

async fn measured<T>(request: BoxFuture<'_, Result<T, sqlx::Error>>, operation: Operation) -> Result<T, StoreError> {
    let begun = Instant::now();
    let outcome = request.instrument(tracing::debug_span!("store", operation = operation.as_str())).await;
    operation.histogram().record(begun.elapsed().as_secs_f64());
    outcome.context(operation.as_str())
}
