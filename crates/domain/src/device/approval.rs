//! Whether a computer is attached, and to which account (`docs/decisions/0002-accounts-and-computers.md`,
//! `docs/decisions/0004-device-codes.md`). The store reads the facts from rows that its transaction has locked, and writes what the plan says.

use crate::ids::{Email, UserAccountId, UserCuid};

/// Why a computer is not attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRefusal {
    /// The code is expired, answered, or deleted, or the agent that approves was revoked.
    #[error("the code is expired, used, or unknown")]
    CodeConsumed,
    /// The computer is not registered, its secret was revoked, or it has another identity than when it requested the code.
    #[error("the computer is not registered")]
    MachineNotRegistered,
    /// The agent that asks with the computer was claimed, revoked or deleted since.
    #[error("the agent was claimed or revoked meanwhile")]
    AgentGone,
    /// The computer's identity has no owner, and another computer registered under it first.
    #[error("another computer registered under the identity first")]
    NotTheFirst,
    /// The person has no account, and the computer's identity has none that the person could take over.
    #[error("an account is needed")]
    AccountRequired,
    /// The computer is attached to another account.
    #[error("the computer is attached to another account")]
    MachineAlreadyClaimed,
    /// The computer's identity is linked to the account of another person.
    #[error("the computer's identity is linked to another account")]
    CuidAlreadyClaimed,
    /// An operator provisioned an account for the computer's identity, and the person has another.
    #[error("the computer's identity belongs to a person with another account")]
    PersonBoundToOtherAccount,
    /// The account has as many valid keys as it may have. The store counts them when it adds the key.
    #[error("the account has too many keys")]
    TooManyKeys,
}

/// A registered computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputerFacts {
    /// Its identity.
    pub identity: UserCuid,
    /// The account that it is attached to.
    pub account: Option<UserAccountId>,
    /// The account that its identity is linked to.
    pub linked: Option<UserAccountId>,
    /// Whether a person owns the linked account.
    pub has_owner: bool,
    /// Whether it registered before all other computers of its identity.
    pub is_first: bool,
}

/// The person who approves, in person or through an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproverFacts {
    /// The person's account.
    pub account: Option<UserAccountId>,
    /// The person's address.
    pub email: Email,
    /// Whether an agent approves.
    pub by_agent: bool,
}

/// The rows that decide about an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalFacts {
    /// Who approves; `None` if it is an agent that was revoked.
    pub approver: Option<ApproverFacts>,
    /// The identity for which the code was requested; `None` unless the code is pending.
    pub requested_for: Option<UserCuid>,
    /// The computer; `None` if it is not registered.
    pub computer: Option<ComputerFacts>,
    /// Whether the agent that asks with the computer, and that the approver confirms, cannot be claimed any more.
    pub is_agent_gone: bool,
}

/// The changes of an approval, in addition to the code's state and to the approver's choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalPlan {
    /// The account that the computer is attached to.
    pub account: UserAccountId,
    /// The address of its owner: the approver.
    pub owner: Email,
    /// The identity of the computer.
    pub identity: UserCuid,
    /// Whether the approver becomes the owner of the account, which an operator provisioned.
    pub takes_over: bool,
    /// Whether the identity is linked to the account, and inherits its consent.
    pub links: bool,
    /// Whether the attachment is the approver's from now on. A person's approval always is; an agent's does not take over an attachment
    /// that exists.
    pub is_of_approver: bool,
}

/// Decides about an approval. The order of the refusals is fixed.
pub fn approve(facts: &ApprovalFacts) -> Result<ApprovalPlan, ApprovalRefusal> {
    let (Some(approver), Some(requested_for)) = (&facts.approver, &facts.requested_for) else {
        return Err(ApprovalRefusal::CodeConsumed);
    };
    // A computer that was removed and registered again with another identity did not request this code.
    let computer = facts.computer.as_ref().filter(|computer| computer.identity == *requested_for);
    let computer = computer.ok_or(ApprovalRefusal::MachineNotRegistered)?;
    if facts.is_agent_gone {
        return Err(ApprovalRefusal::AgentGone);
    }
    // Anybody may register under any identity, so one without an owner goes to the computer that registered first.
    let is_given = !computer.has_owner && (computer.linked.is_none() || approver.account.is_none());
    if computer.account.is_none() && is_given && !computer.is_first {
        return Err(ApprovalRefusal::NotTheFirst);
    }
    let account = match &approver.account {
        Some(account) => account,
        None => computer.unowned_account()?,
    };
    Ok(ApprovalPlan {
        links: computer.attach(account)?,
        account: account.clone(),
        owner: approver.email.clone(),
        identity: computer.identity.clone(),
        takes_over: approver.account.is_none(),
        is_of_approver: !approver.by_agent || computer.account.is_none(),
    })
}

impl ComputerFacts {
    /// Decides whether the computer can be attached to an account, and returns whether its identity has to be linked to the account.
    pub fn attach(&self, account: &UserAccountId) -> Result<bool, ApprovalRefusal> {
        if self.account.as_ref().is_some_and(|other| other != account) {
            return Err(ApprovalRefusal::MachineAlreadyClaimed);
        }
        match &self.linked {
            None => Ok(true),
            Some(linked) if linked == account => Ok(false),
            Some(_) if self.has_owner => Err(ApprovalRefusal::CuidAlreadyClaimed),
            Some(_) => Err(ApprovalRefusal::PersonBoundToOtherAccount),
        }
    }

    /// The account that a person without one takes over: the one that an operator provisioned for the identity.
    fn unowned_account(&self) -> Result<&UserAccountId, ApprovalRefusal> {
        match (&self.linked, &self.account) {
            (Some(linked), _) if !self.has_owner => Ok(linked),
            (_, Some(_)) => Err(ApprovalRefusal::MachineAlreadyClaimed),
            (Some(_), None) => Err(ApprovalRefusal::CuidAlreadyClaimed),
            (None, None) => Err(ApprovalRefusal::AccountRequired),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An account, or `Some` account.
    fn account<T: From<UserAccountId>>(name: &str) -> T {
        T::from(name.parse().unwrap())
    }

    fn cuid(name: &str) -> UserCuid {
        name.parse().unwrap()
    }

    const IDENTITY: &str = "tz4a98xxat96iws9zmbrgj3a";
    const OTHER_IDENTITY: &str = "pfh0haxfpzowht3oi213cqos";

    /// A person with the account `ada` approves the first computer of an identity that is linked to no account.
    fn facts() -> ApprovalFacts {
        ApprovalFacts {
            approver: Some(ApproverFacts {
                account: account("ada"),
                email: "ada@example.com".parse().unwrap(),
                by_agent: false,
            }),
            requested_for: Some(cuid(IDENTITY)),
            computer: Some(ComputerFacts {
                identity: cuid(IDENTITY),
                account: None,
                linked: None,
                has_owner: false,
                is_first: true,
            }),
            is_agent_gone: false,
        }
    }

    fn decided(change: impl FnOnce(&mut ApproverFacts, &mut ComputerFacts)) -> Result<ApprovalPlan, ApprovalRefusal> {
        let mut facts = facts();
        change(facts.approver.as_mut().unwrap(), facts.computer.as_mut().unwrap());
        approve(&facts)
    }

    fn refused(change: impl FnOnce(&mut ApproverFacts, &mut ComputerFacts)) -> ApprovalRefusal {
        decided(change).unwrap_err()
    }

    #[test]
    fn a_new_identity_is_linked_to_the_account_of_the_approver() {
        let plan = approve(&facts()).unwrap();
        assert_eq!(
            plan,
            ApprovalPlan {
                account: account("ada"),
                owner: "ada@example.com".parse().unwrap(),
                identity: cuid(IDENTITY),
                takes_over: false,
                links: true,
                is_of_approver: true,
            }
        );
    }

    #[test]
    fn every_computer_of_an_own_identity_is_attached() {
        for (attached, is_first) in [(None, true), (None, false), (account("ada"), false)] {
            let plan = decided(|_, computer| {
                *computer = ComputerFacts {
                    account: attached,
                    linked: account("ada"),
                    has_owner: true,
                    is_first,
                    ..computer.clone()
                };
            });
            let plan = plan.unwrap();
            assert_eq!((plan.links, plan.takes_over), (false, false));
        }
    }

    /// Each case would be refused for every later reason as well.
    #[test]
    fn refusals_have_a_fixed_order() {
        use ApprovalRefusal::{AccountRequired, AgentGone, CodeConsumed, MachineNotRegistered, NotTheFirst};
        let mut facts = facts();
        facts.approver.as_mut().unwrap().account = None;
        facts.computer.as_mut().unwrap().is_first = false;
        facts.is_agent_gone = true;
        let computer = facts.computer.take();
        let requested_for = facts.requested_for.replace(cuid(OTHER_IDENTITY));
        let is_pending = ApprovalFacts { requested_for: None, ..facts.clone() };
        assert_eq!(approve(&is_pending), Err(CodeConsumed));
        assert_eq!(approve(&ApprovalFacts { approver: None, ..facts.clone() }), Err(CodeConsumed));
        assert_eq!(approve(&facts), Err(MachineNotRegistered));
        facts.computer = computer;
        assert_eq!(approve(&facts), Err(MachineNotRegistered), "it has another identity now");
        facts.requested_for = requested_for;
        assert_eq!(approve(&facts), Err(AgentGone));
        facts.is_agent_gone = false;
        assert_eq!(approve(&facts), Err(NotTheFirst));
        facts.computer.as_mut().unwrap().is_first = true;
        assert_eq!(approve(&facts), Err(AccountRequired));
    }

    #[test]
    fn an_identity_without_an_owner_goes_to_its_first_computer() {
        let later = |own: Option<UserAccountId>, linked: Option<UserAccountId>| {
            decided(|approver, computer| {
                approver.account = own;
                (computer.linked, computer.is_first) = (linked, false);
            })
        };
        assert_eq!(later(account("ada"), None), Err(ApprovalRefusal::NotTheFirst));
        assert_eq!(later(None, account("provisioned")), Err(ApprovalRefusal::NotTheFirst));
        // The provisioned account of the approver is linked already, so nothing is given away.
        assert!(later(account("ada"), account("ada")).is_ok());
        assert_eq!(later(account("ada"), account("provisioned")), Err(ApprovalRefusal::PersonBoundToOtherAccount));
    }

    #[test]
    fn a_person_without_an_account_takes_over_a_provisioned_one() {
        for attached in [None, account("provisioned")] {
            let plan = decided(|approver, computer| {
                approver.account = None;
                (computer.linked, computer.account) = (account("provisioned"), attached);
            });
            let plan = plan.unwrap();
            assert_eq!((plan.account, plan.takes_over, plan.links), (account("provisioned"), true, false));
        }
    }

    #[test]
    fn a_person_without_an_account_takes_over_no_account_of_another_person() {
        let of_bob = |attached: Option<UserAccountId>, linked: Option<UserAccountId>| {
            refused(|approver, computer| {
                approver.account = None;
                (computer.linked, computer.account, computer.has_owner) = (linked, attached, true);
            })
        };
        assert_eq!(of_bob(account("bob"), account("bob")), ApprovalRefusal::MachineAlreadyClaimed);
        assert_eq!(of_bob(account("bob"), None), ApprovalRefusal::MachineAlreadyClaimed);
        assert_eq!(of_bob(None, account("bob")), ApprovalRefusal::CuidAlreadyClaimed);
        assert_eq!(of_bob(None, None), ApprovalRefusal::AccountRequired);
        // Of a provisioned account that another one is attached to.
        let elsewhere = refused(|approver, computer| {
            approver.account = None;
            (computer.linked, computer.account) = (account("provisioned"), account("bob"));
        });
        assert_eq!(elsewhere, ApprovalRefusal::MachineAlreadyClaimed);
    }

    #[test]
    fn computers_and_identities_of_others_stay_theirs() {
        let of_bob = |attached: Option<UserAccountId>, has_owner| {
            refused(|_, computer| {
                (computer.linked, computer.account, computer.has_owner) = (account("bob"), attached, has_owner);
            })
        };
        assert_eq!(of_bob(account("bob"), true), ApprovalRefusal::MachineAlreadyClaimed);
        assert_eq!(of_bob(None, true), ApprovalRefusal::CuidAlreadyClaimed);
        assert_eq!(of_bob(None, false), ApprovalRefusal::PersonBoundToOtherAccount);
    }

    #[test]
    fn an_agent_does_not_take_over_an_attachment() {
        for (by_agent, attached, is_of_approver) in
            [(false, None, true), (false, account("ada"), true), (true, None, true), (true, account("ada"), false)]
        {
            let plan = decided(|approver, computer| {
                approver.by_agent = by_agent;
                (computer.account, computer.linked, computer.has_owner) = (attached, account("ada"), true);
            });
            assert_eq!(plan.unwrap().is_of_approver, is_of_approver);
        }
    }
}
