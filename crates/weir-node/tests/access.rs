//! Who may do what over REST: every route with every role, tokens that are wrong in each way, and what is told to whom.

mod daemon;
mod fake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use daemon::{Daemon, firewall, header, options, problem};
use fake::wire;
use weir_api::access::{NewKey, TenantSettings};
use weir_api::client::{ClientError, Credentials, NodeClient};
use weir_api::problem::Problem;
use weir_api::watch::TraceRequest;
use weir_auth::Role;
use weir_auth::audit::Outcome;
use weir_auth::key::PrivateKey;
use weir_auth::quota::Quotas;
use weir_auth::token::{Claims, request, sign, sign_claims};

/// A daemon with a login, the tenants acme and evil, and a key of each kind.
struct Guarded {
    daemon: Daemon,
    token: String,
    keys: BTreeMap<&'static str, Arc<PrivateKey>>,
}

type Person = (&'static str, Role, Option<&'static str>, Option<&'static str>, Option<&'static str>);

/// Those that the columns of the table are of: name, role, tenant, graph, function.
const PEOPLE: [Person; 7] = [
    ("operator", Role::Operator, None, None, None),
    ("reader", Role::ReadOnly, None, None, None),
    ("acme", Role::Tenant, Some("acme"), None, None),
    ("acme-reader", Role::ReadOnly, Some("acme"), None, None),
    ("acme-graph", Role::Tenant, Some("acme"), Some("fw"), None),
    ("acme-part", Role::Tenant, Some("acme"), Some("fw"), Some("fw")),
    ("evil", Role::Tenant, Some("evil"), None, None),
];

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Guarded {
    fn start() -> Guarded {
        let (dir, fake) = Daemon::place();
        let token = weir_node::new_admin_token(&options(dir.path()).store).unwrap();
        let token = token.reveal().to_owned();
        let daemon = Daemon::guarded(dir, fake, &token);
        for tenant in ["acme", "evil"] {
            daemon.client.put_tenant(tenant, &TenantSettings::default()).unwrap();
        }
        let mut keys = BTreeMap::new();
        for (name, role, tenant, graph, function) in PEOPLE {
            let key = PrivateKey::generate(name).unwrap();
            let owned = |text: &str| text.to_owned();
            let new = NewKey {
                public_key: key.public().to_string(),
                role,
                tenant: tenant.map(owned),
                graph: graph.map(owned),
                functions: function.map(owned).into_iter().collect(),
            };
            daemon.client.add_key(name, &new).unwrap();
            keys.insert(name, Arc::new(key));
        }
        Guarded { daemon, token, keys }
    }

    fn url(&self) -> String {
        format!("http://{}", self.daemon.address)
    }

    fn client(&self, name: &str) -> NodeClient {
        NodeClient::new(&self.url()).with_credentials(Credentials::Key(self.keys[name].clone()))
    }

    /// The status of a request with this header `Authorization`, and the problem that it was answered with.
    fn ask(&self, method: &str, path: &str, login: Option<&str>, body: &str) -> (u16, String) {
        let mut headers = vec![("if-match", "\"none\"")];
        headers.extend(login.map(|l| ("authorization", l)));
        let response = self.daemon.response(method, path, &headers, body.as_bytes());
        let status = response.status().as_u16();
        if status < 400 {
            return (status, String::new());
        }
        let text = response.into_body().read_to_string().unwrap();
        (status, serde_json::from_str::<Problem>(&text).map(|p| p.detail).unwrap_or(text))
    }

    fn signed(&self, name: &str, method: &str, path: &str) -> String {
        let audience = self.daemon.address.to_string();
        let token = sign(&self.keys[name], &audience, &request(method, path), now()).unwrap();
        format!("Bearer {token}")
    }
}

/// A graph of this tenant, or of none that the document names.
fn graph_of(tenant: Option<&str>) -> String {
    let tenant = tenant.map_or(String::new(), |t| format!("tenant: {t}\n"));
    firewall("allow all").replace("tenant: t1\n", &tenant)
}

const QUESTION: &str = r#"{"measure": "mem_util", "graph": "fw"}"#;
const QUERY: &str = r#"{"ask": {"measure": "mem_util", "graph": "fw"}, "every": 60000}"#;

/// Every route, a request of it about graph fw of tenant acme, and who may: the operator, a reader of everything, acme, a reader
/// of acme's, acme limited to the graph, acme limited to function fw of it, and the tenant evil. Who has no login may nothing but
/// what is `open`. A request that is allowed need not succeed: it may be wrong otherwise.
const ROUTES: [(&str, &str, &str, &str); 55] = [
    ("delete /graphs/{id}", "/graphs/fw", "", "x - x - x - -"),
    ("delete /keys/{name}", "/keys/nobody", "", "x - - - - - -"),
    ("delete /tenants/{name}", "/tenants/nobody", "", "x - - - - - -"),
    ("get /audit", "/audit", "", "x x - - - - -"),
    ("get /devices", "/devices", "", "x x - - - - -"),
    ("get /domain", "/domain", "", "x x - - - - -"),
    ("get /events", "/events", "", "x x x x x x x"),
    ("get /events/kept", "/events/kept", "", "x x x x x x x"),
    ("get /graphs", "/graphs", "", "x x x x x x x"),
    ("get /graphs/{id}", "/graphs/fw", "", "x x x x x - -"),
    ("get /graphs/{id}/config", "/graphs/fw/config", "", "x x x x x - -"),
    ("get /graphs/{id}/document", "/graphs/fw/document", "", "x x x x x - -"),
    (
        "get /graphs/{id}/functions/{function}/handlers/{name}",
        "/graphs/fw/functions/fw/handlers/count",
        "",
        "x x x x x x -",
    ),
    ("get /graphs/{id}/functions/{function}/inside", "/graphs/fw/functions/fw/inside", "", "x - - - - - -"),
    ("get /graphs/{id}/functions/{function}/life", "/graphs/fw/functions/fw/life", "", "x x x x x x -"),
    (
        "get /graphs/{id}/functions/{function}/snapshot",
        "/graphs/fw/functions/fw/snapshot",
        "",
        "x - x - x - -",
    ),
    (
        "put /graphs/{id}/functions/{function}/life",
        "/graphs/fw/functions/fw/life",
        r#"{"state": "none"}"#,
        "x - x - x - -",
    ),
    ("put /graphs/{id}/life", "/graphs/fw/life", r#"{"state": "none"}"#, "x - x - x - -"),
    (
        "put /graphs/{id}/functions/{function}/snapshot",
        "/graphs/fw/functions/fw/snapshot",
        "",
        "x - x - x - -",
    ),
    ("get /graphs/{id}/functions/{function}/log", "/graphs/fw/functions/fw/log", "", "x x x x x x -"),
    ("get /graphs/{id}/revisions", "/graphs/fw/revisions", "", "x x x x x - -"),
    ("get /graphs/{id}/revisions/{revision}", "/graphs/fw/revisions/1", "", "x x x x x - -"),
    ("get /graphs/{id}/status", "/graphs/fw/status", "", "x x x x x - -"),
    ("get /health", "/health", "", "open"),
    ("get /images", "/images", "", "x x x x x x x"),
    ("get /images/{name}", "/images/firewall", "", "x x x x x x x"),
    ("delete /images/{name}", "/images/nobody", "", "x - - - - - -"),
    ("put /images/{name}", "/images/nobody", "name: other", "x - - - - - -"),
    ("get /keys", "/keys", "", "x x - - - - -"),
    ("get /metrics", "/metrics", "", "x x x x x x x"),
    ("get /openapi.json", "/openapi.json", "", "open"),
    ("delete /queries/{name}", "/queries/nobody", "", "x x x x x x x"),
    ("get /queries", "/queries", "", "x x x x x x x"),
    ("get /queries/{name}", "/queries/nobody", "", "x x x x x x x"),
    ("put /queries/{name}", "/queries/new", QUERY, "x x x x x - -"),
    ("post /measure", "/measure", QUESTION, "x x x x x - -"),
    ("get /usage", "/usage", "", "x x x x x x x"),
    ("get /tenants", "/tenants", "", "x x x x x x x"),
    ("get /tenants/{name}", "/tenants/acme", "", "x x x x - - -"),
    ("get /whoami", "/whoami", "", "x x x x x x x"),
    ("post /graphs", "/graphs", "GRAPH", "x - x - x - -"),
    ("post /metrics/token", "/metrics/token", "", "x - - - - - -"),
    ("post /graphs/{id}/confirm", "/graphs/fw/confirm", "", "x - x - x - -"),
    ("post /graphs/{id}/move-step", "/graphs/fw/move-step", "{}", "x - x - x - -"),
    ("post /graphs/{id}/rollback", "/graphs/fw/rollback?revision=1", "", "x - x - x - -"),
    ("post /graphs/{id}/capture", "/graphs/fw/capture", "{}", "x x x x x - -"),
    ("post /graphs/{id}/trace", "/graphs/fw/trace", "{}", "x x x x x - -"),
    ("post /images/{name}/tables", "/images/firewall/tables", "{\"params\": {}}", "x x x x x x x"),
    ("post /plan", "/plan", "GRAPH", "x x x x x - -"),
    ("put /graphs", "/graphs", "LIST", "x - x - x - -"),
    ("put /graphs/{id}", "/graphs/fw", "GRAPH", "x - x - x - -"),
    (
        "put /graphs/{id}/functions/{function}/handlers/{name}",
        "/graphs/fw/functions/fw/handlers/reset",
        "1",
        "x - x - x x -",
    ),
    ("put /keys/{name}", "/keys/new", "{}", "x - - - - - -"),
    ("put /tenants/{name}", "/tenants/new", "[]", "x - - - - - -"),
    ("put /graphs/{id} of another", "/graphs/other", "OTHER", "x - - - - - x"),
];

#[test]
fn every_route_lets_in_whom_the_table_says_and_nobody_else() {
    let g = Guarded::start();
    let acme = graph_of(Some("acme"));
    g.client("acme").put("fw", &acme).unwrap();
    let other = wire("other", "eth7", "eth8") + "tenant: evil\n";
    g.client("evil").put("other", &other).unwrap();
    let api = g.daemon.client.openapi().unwrap();
    let mut routes = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        routes.extend(item.as_object().unwrap().keys().map(|m| format!("{m} {path}")));
    }
    let listed = ROUTES.iter().map(|(route, ..)| (*route).to_owned()).filter(|r| !r.ends_with("another"));
    assert_eq!(listed.collect::<BTreeSet<_>>(), routes, "the table is to have every route, and no other");
    let list = serde_json::json!([acme]).to_string();
    for (route, path, body, row) in ROUTES {
        let (method, path) = (route.split(' ').next().unwrap().to_uppercase(), format!("/v1{path}"));
        let body = match body {
            "GRAPH" => &acme,
            "LIST" => &list,
            "OTHER" => &other,
            body => body,
        };
        let (status, detail) = g.ask(&method, &path, None, body);
        if row == "open" {
            assert!(status < 400, "{route}: {status} {detail}");
            continue;
        }
        assert_eq!(status, 401, "{route} without a login: {detail}");
        assert_eq!(row.split(' ').count(), PEOPLE.len());
        for ((name, ..), cell) in PEOPLE.iter().zip(row.split(' ')) {
            let (status, detail) = g.ask(&method, &path, Some(&g.signed(name, &method, &path)), body);
            assert!(
                ![401, 404, 405, 429, 500].contains(&status)
                    || detail.contains("inline")
                    || detail.contains("nobody"),
                "{route} {name}: {status} {detail}"
            );
            assert_eq!(status != 403, cell == "x", "{route} by {name}: {status} {detail}");
            if cell == "-" {
                assert!(detail.contains(&format!("'{name}' (")), "who may not is told: {detail}");
            }
        }
    }
    // What was not allowed was not done.
    assert_eq!(g.daemon.client.graphs().unwrap().iter().map(|g| g.revision).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_token_counts_once_for_one_request_at_this_server() {
    let g = Guarded::start();
    let (path, key) = ("/v1/graphs", g.keys["operator"].clone());
    let refused = |login: &str| {
        let (status, detail) = g.ask("GET", path, Some(login), "");
        assert_eq!(status, 401, "{detail}");
        detail
    };
    let login = g.signed("operator", "GET", path);
    assert_eq!(g.ask("GET", path, Some(&login), "").0, 200);
    assert!(refused(&login).contains("used before"));
    // Another name for the node is one of the same.
    let named = |audience: &str| sign(&key, audience, &request("GET", path), now()).unwrap();
    let port = g.daemon.address.port();
    for audience in [format!("localhost:{port}"), format!("node.example:{port}")] {
        assert_eq!(g.ask("GET", path, Some(&format!("bearer {}", named(&audience))), "").0, 200);
    }
    assert!(refused(&format!("Bearer {}", named("other.example:7400"))).contains("other.example:7400"));
    assert!(refused(&g.signed("operator", "DELETE", path)).contains("signs a token for each request"));
    assert!(refused(&g.signed("operator", "GET", "/v1/graphs?x=1")).contains("for the request"));
    let claims = |iat: u64, exp: u64| {
        let (sub, aud) = (key.public().fingerprint(), g.daemon.address.to_string());
        let claims = Claims { sub, aud, req: request("GET", path), iat, exp, jti: "j".into() };
        format!("Bearer {}", sign_claims(&key, &claims))
    };
    assert!(refused(&claims(now() - 200, now() - 100)).contains("expired"));
    assert!(refused(&claims(now() + 100, now() + 150)).contains("in the future"));
    assert!(refused(&claims(now(), now() + 3600)).contains("at most 300 s"));
    assert!(refused(&claims(now() - 20, now() + 20)).contains("before this server started"));
    assert!(refused(&g.signed("operator", "GET", path).replace("Bearer ey", "Bearer eY")).contains("token"));
    let stranger = PrivateKey::generate("").unwrap();
    let unknown = sign(&stranger, &g.daemon.address.to_string(), &request("GET", path), now()).unwrap();
    assert!(refused(&format!("Bearer {unknown}")).contains(stranger.public().fingerprint().as_str()));
    for (wrong, text) in
        [("Basic eDp5", "no other scheme"), ("x", "no other scheme"), ("Bearer x", "JSON Web Token")]
    {
        assert!(refused(wrong).contains(text), "{wrong}");
    }
    assert!(
        refused("Bearer weir-admin-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
            .contains("--new-admin-token")
    );
    let challenge = |login: &[(&str, &str)]| {
        let response = g.daemon.response("GET", path, login, b"");
        header(&response, "www-authenticate")
    };
    assert_eq!(challenge(&[]), "Bearer realm=\"weir\"");
    assert_eq!(challenge(&[("authorization", "Bearer x")]), "Bearer realm=\"weir\", error=\"invalid_token\"");
}

#[test]
fn a_key_that_is_removed_is_of_no_use_and_so_is_an_old_admin_token() {
    let g = Guarded::start();
    let reader = g.client("reader");
    assert_eq!(reader.whoami().unwrap().role, Role::ReadOnly);
    g.daemon.client.remove_key("reader").unwrap();
    assert_eq!(problem(reader.whoami()).status, 401);
    // The last word on what a key may have is the operator's.
    let public_key = g.keys["reader"].public().to_string();
    let new = |tenant: Option<&str>, role, graph: Option<&str>, functions: &[&str]| NewKey {
        public_key: public_key.clone(),
        role,
        tenant: tenant.map(str::to_owned),
        graph: graph.map(str::to_owned),
        functions: functions.iter().map(|f| (*f).to_owned()).collect(),
    };
    let admin = &g.daemon.client;
    for (name, wrong, status, text) in [
        ("r", new(Some("nobody"), Role::Tenant, None, &[]), 422, "weir tenant add"),
        ("r", new(None, Role::Tenant, None, &[]), 422, "name it"),
        ("r", new(None, Role::Operator, Some("fw"), &[]), 422, "has everything"),
        ("r", new(None, Role::ReadOnly, None, &["f"]), 422, "functions are those of a graph"),
        ("r", new(None, Role::Join, None, &[]), 422, "join by tokens"),
        ("admin", new(None, Role::Operator, None, &[]), 422, "admin token"),
        ("a/b", new(None, Role::Operator, None, &[]), 422, "name"),
        ("acme", new(None, Role::Operator, None, &[]), 409, "another name"),
    ] {
        let p = problem(admin.add_key(name, &wrong));
        assert!(p.status == status && p.detail.contains(text), "{p:?}");
    }
    let known =
        NewKey { public_key: g.keys["acme"].public().to_string(), ..new(None, Role::Operator, None, &[]) };
    assert!(problem(admin.add_key("again", &known)).detail.contains("known already, as 'acme'"));
    assert!(problem(admin.remove_tenant("acme")).detail.contains("has keys: acme, acme-graph"));
    assert!(problem(admin.remove_key("reade")).detail.contains("there is no key 'reade'"));
    for body in ["[]", "{\"quotas\": [1]}", "{\"quotas\": {\"graphs\": -1}}", "{\"quota\": {}}"] {
        let (path, login) = ("/v1/tenants/acme", g.signed("operator", "PUT", "/v1/tenants/acme"));
        assert_eq!(g.ask("PUT", path, Some(&login), body).0, 400, "{body}");
    }
    admin.remove_key("admin").unwrap();
    assert_eq!(problem(admin.whoami()).status, 401);
    assert_eq!(g.client("operator").whoami().unwrap().name, "operator");
    // A new one comes from who has the store's file; keys stay.
    let Guarded { daemon, keys, .. } = g;
    let (dir, fake) = daemon.stop();
    let token = weir_node::new_admin_token(&options(dir.path()).store).unwrap();
    let again =
        Guarded { daemon: Daemon::guarded(dir, fake, token.reveal()), token: token.reveal().into(), keys };
    assert_eq!(again.daemon.client.whoami().unwrap().name, "admin");
    assert_eq!(again.client("acme").whoami().unwrap().tenant.as_deref(), Some("acme"));
}

#[test]
fn a_tenant_has_its_own_graphs_and_no_others() {
    let g = Guarded::start();
    let (acme, evil, admin) = (g.client("acme"), g.client("evil"), &g.daemon.client);
    // A document that names nobody is of who brings it.
    acme.put("fw", &graph_of(None)).unwrap();
    assert_eq!(admin.graph("fw").unwrap()["sffg"]["tenant"], "acme");
    evil.put("other", &wire("other", "eth7", "eth8")).unwrap();
    let p = problem(evil.put("third", &(wire("third", "eth5", "eth6") + "tenant: acme\n")));
    assert!(p.status == 403 && p.detail.contains("write 'tenant: evil'"), "{p}");
    // What is another's can neither be taken, removed nor read.
    for p in [
        problem(evil.put("fw", &graph_of(None))),
        problem(evil.create(&graph_of(None))),
        problem(evil.put_list(&serde_json::json!([graph_of(None)]).to_string(), false, false)),
        problem(evil.graph("fw")),
        problem(evil.plan(&graph_of(None))),
    ] {
        assert!(p.status == 403 && !p.detail.contains("acme"), "{p}");
    }
    assert_eq!(problem(evil.delete("fw")).status, 403);
    let ids = |c: &NodeClient| c.graphs().unwrap().into_iter().map(|g| g.id).collect::<Vec<_>>();
    assert_eq!(
        (ids(&acme), ids(&evil), ids(admin).len()),
        (vec!["fw".to_owned()], vec!["other".to_owned()], 2)
    );
    assert_eq!(ids(&g.client("acme-part")), ["fw"]);
    // Names that are not there do not lead to those of others.
    assert!(!problem(evil.graph("fx")).detail.contains("'fw'"));
    assert!(problem(acme.graph("fx")).detail.contains("fw"));
    // Events are told to whose graph it was when they happened.
    acme.delete("fw").unwrap();
    evil.put("fw", &graph_of(None)).unwrap();
    let told = |c: &NodeClient, graph: Option<&str>| -> BTreeSet<String> {
        let events = c.kept_events(graph, 100).unwrap().events;
        events.into_iter().map(|e| format!("{} {}", e.kind.name(), e.graph.unwrap_or_default())).collect()
    };
    let set = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(told(&acme, None), set(&["applied fw", "removed fw"]));
    assert_eq!(told(&evil, None), set(&["applied fw", "applied other"]));
    assert_eq!(told(&evil, Some("fw")), set(&["applied fw"]));
    assert!(told(&g.client("reader"), None).iter().any(|e| e.starts_with("engine-up")));
    let first = evil.events(Some(0)).unwrap().next().unwrap().unwrap();
    assert_eq!((first.graph.as_deref(), first.tenant.as_deref()), (Some("other"), Some("evil")));
    // An operator may give a graph away.
    admin.put("fw", &graph_of(Some("acme"))).unwrap();
    assert_eq!(problem(evil.graph("fw")).status, 403);
    // Its revisions stay with whose they were.
    let revisions = |c: &NodeClient| -> Vec<(u64, String)> {
        let list = c.history("fw").unwrap().revisions.into_iter();
        list.map(|r| (r.revision, r.who.unwrap().name)).collect()
    };
    assert_eq!(revisions(admin), [(2, "admin".to_owned()), (1, "evil".to_owned())]);
    assert_eq!(revisions(&acme), [(2, "admin".to_owned())]);
    assert_eq!(problem(acme.revision("fw", 1)).status, 404);
    assert_eq!(problem(acme.roll_back("fw", None)).status, 404);
    assert_eq!(problem(evil.history("fw")).status, 403);
    assert!(acme.trace("fw", &TraceRequest { filter: String::new(), count: 1 }).is_ok());
}

#[test]
fn a_tenant_has_no_more_than_its_quotas() {
    let g = Guarded::start();
    let (acme, admin) = (g.client("acme"), &g.daemon.client);
    let quotas = |graphs, requests| TenantSettings {
        quotas: Quotas { graphs, requests, ..Quotas::default() },
        ..TenantSettings::default()
    };
    admin.put_tenant("acme", &quotas(Some(1), None)).unwrap();
    acme.put("fw", &graph_of(None)).unwrap();
    let second = wire("second", "eth5", "eth6");
    let p = problem(acme.put("second", &second));
    assert!(p.status == 403 && p.detail.contains("would have 2 graphs and may have 1 graph"), "{p}");
    // All or none, also of those.
    let list = serde_json::json!([graph_of(None), second]).to_string();
    assert_eq!(problem(acme.put_list(&list, false, true)).status, 403);
    let outcomes = acme.put_list(&list, true, true).unwrap().graphs;
    assert!(outcomes[0].problem.is_none() && outcomes[1].problem.as_ref().unwrap().status == 403);
    let tenant = acme.tenant("acme").unwrap();
    assert_eq!((tenant.usage.graphs, tenant.quotas.graphs), (1, Some(1)));
    acme.delete("fw").unwrap();
    acme.put("second", &second).unwrap();
    assert!(problem(admin.remove_tenant("acme")).detail.contains("has"));

    admin.put_tenant("acme", &quotas(None, Some(1))).unwrap();
    let mut problems = (0..30).map(|_| acme.whoami()).filter_map(Result::err);
    let Some(ClientError::Problem(p)) = problems.next() else { panic!("all were taken") };
    assert!(p.status == 429 && p.detail.contains("quota of 1 requests a second"), "{p}");
    let (path, login) = ("/v1/whoami", g.signed("acme", "GET", "/v1/whoami"));
    let response = g.daemon.response("GET", path, &[("authorization", &login)], b"");
    assert_eq!((response.status().as_u16(), header(&response, "retry-after").as_str()), (429, "1"));
    assert!(g.client("evil").whoami().is_ok() && admin.whoami().is_ok());
}

#[test]
fn the_audit_log_says_who_did_what_before_and_after() {
    let g = Guarded::start();
    let (acme, evil) = (g.client("acme"), g.client("evil"));
    acme.put("fw", &graph_of(None)).unwrap();
    acme.put("fw", &graph_of(None).replace("allow all", "allow tcp")).unwrap();
    acme.graph("fw").unwrap();
    _ = evil.delete("fw");
    _ = acme.put("fw", &graph_of(None).replace("name: firewall", "name: nothing"));
    acme.delete("fw").unwrap();
    let records = g.client("reader").audit(None, 100).unwrap().records;
    let of = |who: &str| {
        let own = records.iter().filter(|r| r.who.name == who);
        own.map(|r| (r.action.as_deref().unwrap_or_default(), r.outcome)).collect::<Vec<_>>()
    };
    use Outcome::{Denied, Done, Failed};
    assert_eq!(
        of("acme"),
        [("change-graph", Done), ("change-graph", Done), ("change-graph", Failed), ("delete-graph", Done)]
    );
    assert_eq!(of("evil"), [("delete-graph", Denied)]);
    assert_eq!(of("admin").iter().filter(|(a, _)| *a == "change-keys").count(), PEOPLE.len());
    let change = records.iter().filter(|r| r.who.name == "acme").nth(1).unwrap();
    assert_eq!(change.who.fingerprint.as_deref(), Some(g.keys["acme"].public().fingerprint().as_str()));
    assert_eq!((change.object.as_deref(), change.summary.as_deref()), (Some("graph fw"), Some("changed")));
    assert!(
        change.before.as_ref().unwrap().starts_with("1-") && change.after.as_ref().unwrap().starts_with("2-")
    );
    assert!(change.who.address.as_ref().unwrap().starts_with("127.0.0.1:") && change.path == "/v1/graphs/fw");
    let ids: Vec<u64> = records.iter().map(|r| r.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    let later = g.client("reader").audit(Some(ids[ids.len() - 2]), 10).unwrap().records;
    assert_eq!(later, records[records.len() - 1..]);
    assert!(!format!("{records:?}").contains(&g.token), "a secret is in the log");
}

#[test]
fn without_a_login_everyone_is_an_operator_and_can_prepare_one() {
    let d = Daemon::start();
    let who = d.client.whoami().unwrap();
    assert_eq!((who.login, who.name.as_str(), who.role), (false, "local", Role::Operator));
    d.client.put_tenant("acme", &TenantSettings::default()).unwrap();
    let key = PrivateKey::generate("root").unwrap();
    let new = NewKey {
        public_key: key.public().to_string(),
        role: Role::Operator,
        tenant: None,
        graph: None,
        functions: BTreeSet::new(),
    };
    d.client.add_key("root", &new).unwrap();
    assert_eq!(d.client.audit(None, 10).unwrap().records, []);
    // With an operator's key there is no need for an admin token.
    let (dir, fake) = d.stop();
    let d = Daemon::guarded(dir, fake, "weir-admin-none");
    let client = NodeClient::new(&d.address.to_string()).with_credentials(Credentials::Key(Arc::new(key)));
    assert_eq!(client.whoami().unwrap().name, "root");
    assert_eq!(client.tenants().unwrap().tenants[0].name, "acme");
}
