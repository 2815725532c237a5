//! Operations of the store: their names in errors, in metrics and in spans.

use std::sync::OnceLock;
use std::time::Instant;

use futures_util::future::BoxFuture;
use metrics::Histogram;
use strum::{EnumCount, IntoStaticStr};
use tracing::Instrument;

use crate::error::{Context, StoreError};

/// A database request that is measured separately: a statement or a transaction. The name is a verb and its object. In snake case it is the
/// label `operation` of the metric `attache_store_seconds`; errors have spaces in place of the underscores ("cannot attach machine").
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumCount)]
#[strum(serialize_all = "snake_case")]
#[expect(missing_docs, reason = "the name of each operation is its description")]
pub enum Operation {
    FindChunksByTheirWords,
    MakeTableOfNearVectors,
    CreateWebhook,
    ListWebhooksOfAccount,
    ReadWebhook,
    ChangeWebhook,
    DeleteWebhook,
    WriteNotification,
    ListDeliveriesOfWebhook,
    ListDueWebhooks,
    LeaseWebhooks,
    BeginTryOfDelivery,
    EndTryOfDelivery,
    CreateAuditLink,
    ListAuditLinksOfAccount,
    LookUpAuditLink,
    WriteLastUseOfAuditLink,
    DeleteAuditLink,
    CreateFeed,
    ReadFeed,
    ListEntriesOfFeed,
    ChangeFeed,
    DeleteFeed,
    CreateRule,
    ListRulesOfAccount,
    DeleteRule,
    ChangeDigest,
    ReadDigest,
    ReadHowFarRulesHaveRead,
    ListWatchedAccounts,
    ReadWatchedAccount,
    WriteMatchesOfRules,
    AddUsage,
    ApproveDeviceCode,
    AttachMachine,
    CancelBatch,
    CountHeldEvents,
    StartChainEpochOfOutbox,
    ChangeFilterSettingsOfAccount,
    ChangeSomeOfFilterSettingsOfAccount,
    ChangeSpace,
    CleanUpAfterRemovedComputer,
    CompleteClaim,
    CopyVectorsForDatabaseToCompare,
    CountAllRows,
    CountMemoriesOfAccount,
    CountMemoriesOfSpace,
    CountSignInCode,
    CountUsage,
    CountConfirmationsOfAgent,
    CountWords,
    CountWrongCode,
    FoldUsage,
    CreateRegistration,
    CreateSession,
    DeleteExpiredRows,
    MergeWords,
    DenyDeviceCode,
    DetachMachine,
    DiscardHeldEvent,
    CloseAccount,
    ListClosedAccounts,
    EmptyClosedAccount,
    EditConsent,
    NameComputer,
    NameAgent,
    ListEndedComputersOfAccount,
    ReadUsageByDay,
    EndBatch,
    EndDeviceCode,
    FileVerdict,
    FindAccountByAddress,
    FindChunksWithCommonWords,
    FindChunksWithoutVector,
    FindDefaultSpaceOfAccount,
    FindMachineByItsSecret,
    FindMachinesByTheirSecrets,
    FindNearVectors,
    FindNearVectorsInSpaces,
    FindNewestChunksOfSpaces,
    FindNewestMemoriesWithCommonWords,
    FindPublicSpacesOfMemory,
    FindRegistrationByItsClaimToken,
    FindSession,
    FindAccountIndexesOfSearch,
    FindAccountIndexesWithoutGraph,
    FindToken,
    FindTypedCode,
    FindRegistrationOfAttempt,
    FollowChangesOfAccountIndex,
    ForgetMemory,
    DeleteUsageOfSenders,
    GetKeyOfShortCodes,
    GiveInstallationId,
    HoldEvents,
    IssueToken,
    KeepMemory,
    KeepVectors,
    LeaseBatch,
    EndLeaseOfBatch,
    ListAccounts,
    ListAgents,
    ListAgentsOfAccount,
    ListApiKeys,
    ListApiKeysOfAccount,
    ListBatchesOfAccount,
    ListOrphanedBatches,
    ListComputersOfAccount,
    ListDeviceCodesThatChanged,
    ListEntriesOfBalance,
    ListHeldEvents,
    ListRunningBatches,
    ListUnsentMails,
    SteerMail,
    ListWebhooks,
    DisableWebhook,
    EnableWebhook,
    ListSessions,
    ListIdentitiesOfAccount,
    ListMachines,
    ListMemories,
    ListNodes,
    ListenForChanges,
    ListPeople,
    ListRegistrationsThatChanged,
    ListRemovedComputers,
    ListSessionsOfPerson,
    ListSpacesOfAccount,
    ListUnclassifiedEvents,
    ListVerdictsOfAccount,
    ListChainsInOutbox,
    RecordAct,
    ListActs,
    ReadAct,
    ResendActs,
    ListSettingOverrides,
    OverrideSetting,
    LookForChangesOfOperators,
    AddNodeOrder,
    ListNodeOrders,
    ReadNodeOrder,
    SettleNodeOrder,
    BeginOperatorRequest,
    EndOperatorRequest,
    ListServicePauses,
    BeginServicePause,
    EndServicePause,
    ListRecordersOfAccount,
    LookCredentialUp,
    LookUpApiKey,
    MakeApiKey,
    MakeDefaultSpaceOfAccount,
    MakeGraphOfAccountIndex,
    MakeSigningKeys,
    MakeSpace,
    MarkHeldEventAsReleased,
    MarkSpace,
    DeleteSpace,
    EditMemory,
    ListTagsOfAccount,
    MoveMemoryToDefaultSpace,
    MoveBalance,
    MarkMailAsNotSent,
    MarkMailAsSent,
    ProvisionAccount,
    TakeOverLeases,
    RemoveNode,
    WriteNode,
    ReadAccount,
    ReadApiKey,
    ReadBatch,
    ReadConsent,
    ReadConsentOfAccount,
    ReadDeviceCode,
    ReadFilterSettingsOfAccount,
    ReadHeldEvent,
    ReadAccessToBatch,
    ReadHowFarUsageIsCounted,
    ReadIdentity,
    ReadItemOfBatch,
    ReadItemsOfBatch,
    ReadMachine,
    ReadMemories,
    ReadOutbox,
    ReadChunks,
    ReadPerson,
    ReadRegistration,
    ReadSignInTicket,
    ReadSigningKeys,
    ReadSizeOfHeldEvents,
    ReadSpaces,
    ReadTextsOfChunks,
    ReadTitlesOfBatch,
    ReadUsageOfSender,
    ReadInstallationId,
    RegisterMachine,
    ReleaseHeldEvent,
    ListLogParts,
    OpenLogPart,
    RememberCheckpointOfLog,
    RememberNewLog,
    RemoveComputersThatWereNeverAttached,
    RemoveMachine,
    RemoveHeldEventsOfRemovedComputer,
    RevokeApiKey,
    RevokeOtherSessionsOfPerson,
    RevokeRegistration,
    RevokeSession,
    RevokeSessionOfPerson,
    RevokeToken,
    RotateSigningKeys,
    SetConsent,
    SetPlan,
    ShareSpace,
    SignPersonIn,
    SlideSession,
    StartAttachmentOfMachine,
    StartClaim,
    SumUsage,
    CreateBatch,
    QueueMail,
    StoreSignInCode,
    RemoveEventFromOutbox,
    LeaseMailsToSend,
    RemoveMemoryFromSpaces,
    UseSignInCode,
    UseOpenIdState,
    WriteHeartbeat,
    WriteLastUseOfApiKey,
    WriteOutcomeOfItem,
    WriteUsageOfSenders,
    WriteLastRequestsOfMachines,
}

/// Name of the histogram.
pub const SECONDS: &str = "attache_store_seconds";

static HISTOGRAMS: [OnceLock<Histogram>; Operation::COUNT] = [const { OnceLock::new() }; Operation::COUNT];

impl Operation {
    /// The name in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The handle is looked up once, after the metrics recorder was installed: the server installs it before it opens the store.
    fn histogram(self) -> &'static Histogram {
        let make = || metrics::histogram!(SECONDS, "operation" => self.as_str());
        HISTOGRAMS[self as usize].get_or_init(make)
    }
}

/// Names the operation of a request to the database, measures it, and runs it in a span at debug level.
pub trait During<'a, T>: Future<Output = Result<T, sqlx::Error>> + Send + Sized + 'a {
    /// Records the time until the result, success or failure. A dropped future is not counted.
    ///
    /// The request is boxed: otherwise a future that awaits several requests would have the size of all of them, and the compiler would
    /// generate the rest of this function for each.
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
