//! Every role against every action.

use std::collections::BTreeSet;

use proptest::prelude::*;
use weir_auth::principal::PrincipalError;
use weir_auth::quota::{Quotas, Rate, Usage};
use weir_auth::{Action, Function, Graph, ObservationPoint, Owner, Principal, Role, Scope, TenantKind};

const OWN: Graph<'_> = Graph { id: "g", tenant: Some("acme") };
const SECOND: Graph<'_> = Graph { id: "h", tenant: Some("acme") };
const OTHER: Graph<'_> = Graph { id: "g", tenant: Some("evil") };
const OPERATORS: Graph<'_> = Graph { id: "g", tenant: None };

fn function<'a>(graph: Graph<'a>, id: &'a str) -> Function<'a> {
    Function { graph, id }
}

fn acme() -> Option<Owner> {
    Some(Owner { name: "acme".into(), kind: TenantKind::Client })
}

fn part() -> Scope {
    Scope::Functions { graph: "g".into(), functions: BTreeSet::from(["fw".into()]) }
}

/// Those that the columns of the table are of.
fn principals() -> [Principal; 9] {
    let new = |role, tenant, scope| Principal::new("p", role, tenant, scope).unwrap();
    let graph = || Scope::Graph { graph: "g".into() };
    [
        Principal::operator("root"),
        new(Role::ReadOnly, None, Scope::Everything),
        new(Role::Tenant, acme(), Scope::Everything),
        new(Role::ReadOnly, acme(), Scope::Everything),
        new(Role::Tenant, acme(), graph()),
        new(Role::Tenant, acme(), part()),
        new(Role::ReadOnly, acme(), part()),
        new(Role::ReadOnly, None, graph()),
        Principal::joining("node"),
    ]
}

/// Each action, and who may: operator, read-only, tenant, read-only of the tenant, graph g of the tenant, function fw of it, the same
/// read-only, graph g read-only, a node that joins. `x`: may.
fn table() -> Vec<(Action<'static>, &'static str)> {
    use Action::*;
    let fw = |graph| function(graph, "fw");
    let dns = |graph| function(graph, "dns");
    vec![
        (WhoAmI, "x x x x x x x x x"),
        (ListGraphs, "x x x x x x x x -"),
        (ListGraph(OWN), "x x x x x x x x -"),
        (ListGraph(SECOND), "x x x x - - - - -"),
        (ListGraph(OTHER), "x x - - - - - x -"),
        (ListGraph(OPERATORS), "x x - - - - - x -"),
        (ReadGraph(OWN), "x x x x x - - x -"),
        (ReadGraph(SECOND), "x x x x - - - - -"),
        (ReadGraph(OTHER), "x x - - - - - x -"),
        (ReadGraph(OPERATORS), "x x - - - - - x -"),
        (PlanGraph(OWN), "x x x x x - - x -"),
        (PlanGraph(SECOND), "x x x x - - - - -"),
        (PlanGraph(OTHER), "x x - - - - - x -"),
        (ChangeGraph(OWN), "x - x - x - - - -"),
        (ChangeGraph(SECOND), "x - x - - - - - -"),
        (ChangeGraph(OTHER), "x - - - - - - - -"),
        (ChangeGraph(OPERATORS), "x - - - - - - - -"),
        (DeleteGraph(OWN), "x - x - x - - - -"),
        (DeleteGraph(SECOND), "x - x - - - - - -"),
        (DeleteGraph(OTHER), "x - - - - - - - -"),
        (DeleteGraph(OPERATORS), "x - - - - - - - -"),
        (ReadHandler(fw(OWN)), "x x x x x x x x -"),
        (ReadHandler(dns(OWN)), "x x x x x - - x -"),
        (ReadHandler(fw(OTHER)), "x x - - - - - x -"),
        (WriteHandler(fw(OWN)), "x - x - x x - - -"),
        (WriteHandler(dns(OWN)), "x - x - x - - - -"),
        (WriteHandler(fw(SECOND)), "x - x - - - - - -"),
        (WriteHandler(fw(OTHER)), "x - - - - - - - -"),
        (ReadLog(fw(OWN)), "x x x x x x x x -"),
        (ReadLog(dns(OWN)), "x x x x x - - x -"),
        (ReadLog(fw(OTHER)), "x x - - - - - x -"),
        (Trace(ObservationPoint::Graph(OWN)), "x x x x x - - x -"),
        (Trace(ObservationPoint::Function(fw(OWN))), "x x x x x x x x -"),
        (Trace(ObservationPoint::Graph(OTHER)), "x x - - - - - x -"),
        (Capture(ObservationPoint::Graph(OWN)), "x x x x x - - x -"),
        (Capture(ObservationPoint::Function(fw(OWN))), "x x x x x x x x -"),
        (Capture(ObservationPoint::Function(dns(OWN))), "x x x x x - - x -"),
        (Capture(ObservationPoint::Function(fw(OTHER))), "x x - - - - - x -"),
        (Shell(fw(OWN)), "x - - - - - - - -"),
        (ReadEvents, "x x x x x x x x -"),
        (ReadNodeEvents, "x x - - - - - - -"),
        (ReadImages, "x x x x x x x x -"),
        (ChangeImages, "x - - - - - - - -"),
        (ReadMetrics, "x x x x x x x x -"),
        (ReadDevices, "x x - - - - - - -"),
        (ReadDomain, "x x - - - - - - -"),
        (ReadNodes, "x x - - - - - - -"),
        (ChangeNodes, "x - - - - - - - -"),
        (Join, "- - - - - - - - x"),
        (MakeJoinTokens, "x - - - - - - - -"),
        (ReadPolicies, "x x - - - - - - -"),
        (ChangePolicies, "x - - - - - - - -"),
        (ReadKeys, "x x - - - - - - -"),
        (ChangeKeys, "x - - - - - - - -"),
        (ListTenants, "x x x x x x x x -"),
        (ReadTenant("acme"), "x x x x - - - - -"),
        (ReadTenant("evil"), "x x - - - - - - -"),
        (ChangeTenants, "x - - - - - - - -"),
        (ReadAudit, "x x - - - - - - -"),
        (Backup, "x - - - - - - - -"),
    ]
}

/// A number for each action. A new one does not compile until it has one, and does not pass until it is in the table.
fn number(action: &Action<'_>) -> usize {
    match action {
        Action::WhoAmI => 0,
        Action::ListGraphs => 1,
        Action::ListGraph(_) => 2,
        Action::ReadGraph(_) => 3,
        Action::PlanGraph(_) => 4,
        Action::ChangeGraph(_) => 5,
        Action::DeleteGraph(_) => 6,
        Action::ReadHandler(_) => 7,
        Action::WriteHandler(_) => 8,
        Action::ReadLog(_) => 9,
        Action::Trace(_) => 10,
        Action::Capture(_) => 11,
        Action::Shell(_) => 12,
        Action::ReadEvents => 13,
        Action::ReadNodeEvents => 14,
        Action::ReadImages => 15,
        Action::ChangeImages => 16,
        Action::ReadDevices => 17,
        Action::ReadDomain => 18,
        Action::ReadNodes => 19,
        Action::ChangeNodes => 20,
        Action::Join => 21,
        Action::MakeJoinTokens => 22,
        Action::ReadPolicies => 23,
        Action::ChangePolicies => 24,
        Action::ReadKeys => 25,
        Action::ChangeKeys => 26,
        Action::ListTenants => 27,
        Action::ReadTenant(_) => 28,
        Action::ChangeTenants => 29,
        Action::ReadAudit => 30,
        Action::Backup => 31,
        Action::ReadMetrics => 32,
    }
}
const ACTIONS: usize = 33;

#[test]
fn every_role_may_what_the_table_says_and_nothing_else() {
    let (mut numbers, mut words) = (BTreeSet::new(), BTreeSet::new());
    for (action, row) in table() {
        numbers.insert(number(&action));
        words.insert(action.word());
        for (principal, cell) in principals().iter().zip(row.split(' ')) {
            let answer = principal.may(&action);
            assert_eq!(answer.is_ok(), cell == "x", "{principal} {action:?}: {answer:?}");
        }
        assert_eq!(row.split(' ').count(), principals().len(), "{action:?}");
    }
    assert_eq!(numbers, (0..ACTIONS).collect(), "an action is not in the table");
    assert_eq!(words.len(), ACTIONS, "two actions have one word");
}

#[test]
fn a_refusal_says_who_may_not_do_what_and_who_may() {
    let [_, _, tenant, .., reader, _, _] = principals();
    let error = tenant.may(&Action::DeleteGraph(OTHER)).unwrap_err().to_string();
    assert_eq!(
        error,
        "'p' (tenant acme) may not delete graph 'g': an operator may, and the tenant that owns the graph; a read-only key changes nothing"
    );
    assert!(!error.contains("evil"), "whose it is, is said to others");
    let error = reader.may(&Action::ReadGraph(OWN)).unwrap_err().to_string();
    assert!(
        error.starts_with("'p' (read-only, tenant acme, graph g: fw) may not read graph 'g': "),
        "{error}"
    );
}

#[test]
fn a_document_is_that_of_the_tenant_who_brings_it() {
    let [operator, _, tenant, ..] = principals();
    assert_eq!(tenant.tenant_of_document("g", None).unwrap().as_deref(), Some("acme"));
    assert_eq!(tenant.tenant_of_document("g", Some("acme")).unwrap().as_deref(), Some("acme"));
    let error = tenant.tenant_of_document("g", Some("evil")).unwrap_err().to_string();
    assert!(error.contains("write 'tenant: acme'"), "{error}");
    assert_eq!(operator.tenant_of_document("g", None), Ok(None));
    assert_eq!(operator.tenant_of_document("g", Some("evil")).unwrap().as_deref(), Some("evil"));
}

#[test]
fn role_tenant_and_scope_have_to_fit() {
    let new = |role, tenant, scope| Principal::new("p", role, tenant, scope).unwrap_err();
    assert_eq!(new(Role::Tenant, None, Scope::Everything), PrincipalError::NoTenant);
    assert_eq!(new(Role::Operator, acme(), Scope::Everything), PrincipalError::OfTenant(Role::Operator));
    assert_eq!(new(Role::Operator, None, part()), PrincipalError::Limited(Role::Operator));
    let none = Scope::Functions { graph: "g".into(), functions: BTreeSet::new() };
    assert_eq!(new(Role::Tenant, acme(), none), PrincipalError::NoFunctions);
}

#[test]
fn a_quota_is_told_with_its_figures_and_never_keeps_one_from_taking_less() {
    let quotas = Quotas { graphs: Some(2), memory: Some(64 << 20), cpu: Some(1500), requests: None };
    let usage = |graphs, memory: u64, cpu| Usage { graphs, memory: memory << 20, cpu };
    assert_eq!(quotas.admit("acme", usage(0, 0, 0), usage(2, 64, 1500)), Ok(()));
    let error = quotas.admit("acme", usage(2, 64, 0), usage(3, 65, 1750)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tenant 'acme' would have 3 graphs and may have 2 graphs, and 65 MB of memory and may have 64 MB of memory, and 1.750 processors \
         and may have 1.500 processors; an operator may raise its quota"
    );
    assert_eq!(quotas.admit("acme", usage(9, 99, 9000), usage(9, 98, 9000)), Ok(()));
    assert!(quotas.admit("acme", usage(9, 99, 9000), usage(8, 100, 0)).is_err());
    let large = Quotas { requests: Some(1 << 31), ..quotas };
    assert!(
        quotas.check().is_ok() && large.check().unwrap_err().contains("quotas.requests: at most 2147483647")
    );
    assert_eq!(Quotas::default().admit("acme", usage(0, 0, 0), usage(9999, 9999, 9999)), Ok(()));
}

#[test]
fn requests_come_back_with_time() {
    let mut rate = Rate::new(2, 1000);
    for _ in 0..20 {
        rate.take(1000).unwrap();
    }
    assert_eq!(rate.take(1000), Err(500));
    assert_eq!(rate.take(500), Err(500), "a clock that goes back gives nothing");
    assert_eq!(rate.take(1499), Err(1));
    assert_eq!(rate.take(1500), Ok(()));
    assert!(rate.take(1500).is_err());
    let mut none = Rate::new(0, 0);
    assert!(none.take(u64::MAX).is_err());
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        Just(Scope::Everything),
        "[gh]".prop_map(|graph| Scope::Graph { graph }),
        ("[gh]", prop::collection::btree_set("[ab]", 1..3))
            .prop_map(|(graph, functions)| Scope::Functions { graph, functions }),
    ]
}

proptest! {
    /// Whoever acts for a tenant reaches no graph of another's, whatever their role and scope; a read-only key changes nothing; and who
    /// is limited may nothing that they might not without the limit.
    #[test]
    fn nobody_leaves_their_tenant_or_scope(scope in scope(), read_only: bool, row in 0..table().len(), tenant in "acme|evil") {
        let (action, _) = table()[row];
        let role = if read_only { Role::ReadOnly } else { Role::Tenant };
        let owner = Some(Owner { name: tenant.clone(), kind: TenantKind::Client });
        let limited = Principal::new("p", role, owner.clone(), scope).unwrap();
        if limited.may(&action).is_ok() {
            let whole = Principal::new("p", Role::Tenant, owner, Scope::Everything).unwrap();
            prop_assert!(whole.may(&action).is_ok());
            prop_assert!(!(read_only && action.changes()), "{action:?}");
            let of = match action {
                Action::ListGraph(g) | Action::ReadGraph(g) | Action::PlanGraph(g) | Action::ChangeGraph(g) | Action::DeleteGraph(g)
                | Action::Trace(ObservationPoint::Graph(g)) | Action::Capture(ObservationPoint::Graph(g)) => Some(g),
                Action::ReadHandler(f) | Action::WriteHandler(f) | Action::ReadLog(f) | Action::Shell(f)
                | Action::Trace(ObservationPoint::Function(f)) | Action::Capture(ObservationPoint::Function(f)) => Some(f.graph),
                _ => None,
            };
            prop_assert!(of.is_none_or(|g| g.tenant == Some(&tenant)), "{action:?}");
        }
    }

    /// In any time, no more requests pass than the rate and what may come at once allow, and all do that keep to the rate.
    #[test]
    fn the_rate_holds(rate in 1u32..50, pauses in prop::collection::vec(0u64..400, 1..200)) {
        let (mut bucket, mut now, mut taken) = (Rate::new(rate, 0), 0, 0u64);
        for pause in pauses {
            now += pause;
            taken += u64::from(bucket.take(now).is_ok());
            prop_assert!(taken * 1000 <= u64::from(rate) * (10_000 + now));
        }
        let mut calm = Rate::new(rate, 0);
        for i in 0..100 {
            prop_assert!(calm.take(i * 1000_u64.div_ceil(rate.into())).is_ok());
        }
    }
}
