//! Signed tokens: good once, for one request, at one server, for a short time.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use proptest::prelude::*;
use weir_auth::audience::{Audiences, of_authority, of_url};
use weir_auth::key::{PrivateKey, PublicKey};
use weir_auth::replay::ReplayCache;
use weir_auth::secret::{JoinError, JoinTerms, Secret, Use};
use weir_auth::token::{
    Claims, Expected, LIFETIME, MAX_LENGTH, SKEW, TokenError, Unverified, request, sign, sign_claims,
};

const NOW: u64 = 1_800_000_000;
const REQUEST: &str = "GET /graphs?x=1";

fn here() -> Audiences {
    let mut audiences = Audiences::default();
    audiences.add_address("127.0.0.1:7400".parse().unwrap());
    assert!(audiences.add_name("Node.Example", 7400));
    audiences
}

fn check(token: &str, key: &PublicKey, now: u64) -> Result<Claims, TokenError> {
    let audiences = here();
    let expected = Expected { audiences: &audiences, request: REQUEST, now, since: NOW - 1000 };
    Unverified::parse(token)?.verify(key, &expected)
}

fn claims(key: &PrivateKey) -> Claims {
    Claims {
        sub: key.public().fingerprint(),
        aud: "node.example:7400".into(),
        req: REQUEST.into(),
        iat: NOW,
        exp: NOW + 60,
        jti: "a".into(),
    }
}

#[test]
fn a_token_is_good_for_its_time_its_server_and_its_request() {
    let key = PrivateKey::generate("").unwrap();
    let token = sign(&key, "localhost:7400", &request("GET", "/graphs?x=1"), NOW).unwrap();
    assert_eq!(Unverified::parse(&token).unwrap().subject(), &key.public().fingerprint());
    let end = NOW + LIFETIME + SKEW;
    for now in [NOW - SKEW, NOW, end - 1] {
        check(&token, key.public(), now).unwrap();
    }
    assert_eq!(check(&token, key.public(), NOW - SKEW - 1), Err(TokenError::Future(SKEW + 1)));
    assert_eq!(check(&token, key.public(), end), Err(TokenError::Expired(SKEW)));
    let other = PrivateKey::generate("").unwrap();
    assert_eq!(check(&token, other.public(), NOW), Err(TokenError::Signature));

    let wrong = |change: &dyn Fn(&mut Claims)| {
        let mut claims = claims(&key);
        change(&mut claims);
        check(&sign_claims(&key, &claims), key.public(), NOW).unwrap_err()
    };
    let audience = wrong(&|c| c.aud = "other.example:7400".into());
    assert!(audience.to_string().contains("node.example:7400"), "{audience}");
    assert!(matches!(audience, TokenError::Audience { .. }));
    assert!(matches!(wrong(&|c| c.req = "DELETE /graphs/a".into()), TokenError::Request { .. }));
    assert_eq!(wrong(&|c| c.exp = NOW + 301), TokenError::Lifetime(301));
    assert_eq!(wrong(&|c| c.exp = u64::MAX), TokenError::Lifetime(u64::MAX - NOW));
    assert_eq!(wrong(&|c| c.exp = NOW), TokenError::Lifetime(0));
    assert_eq!(wrong(&|c| (c.iat, c.exp) = (NOW, NOW - 1)), TokenError::Lifetime(0));
    assert_eq!(
        wrong(&|c| (c.iat, c.exp) = (u64::MAX - 60, u64::MAX)),
        TokenError::Future(u64::MAX - 60 - NOW)
    );
    // Of a time before the server remembers, even if it is still good.
    let audiences = here();
    let expected = Expected { audiences: &audiences, request: REQUEST, now: NOW + 5, since: NOW + 2 };
    let early = Unverified::parse(&token).unwrap().verify(key.public(), &expected);
    assert_eq!(early, Err(TokenError::BeforeStart(2)));
}

#[test]
fn no_other_algorithm_and_no_other_form_is_taken() {
    let key = PrivateKey::generate("").unwrap();
    let payload = BASE64.encode(serde_json::to_vec(&claims(&key)).unwrap());
    let with_header = |header: &str| {
        let message = format!("{}.{payload}", BASE64.encode(header));
        format!("{message}.{}", BASE64.encode(key.sign(message.as_bytes())))
    };
    check(&with_header(r#"{"alg":"EdDSA"}"#), key.public(), NOW).unwrap();
    for other in ["none", "None", "HS256", "RS256", "ES256", "eddsa", ""] {
        let error = check(&with_header(&format!(r#"{{"alg":"{other}"}}"#)), key.public(), NOW).unwrap_err();
        assert_eq!(error, TokenError::Algorithm(other.into()));
    }
    // Without a signature.
    let none = format!("{}.{payload}.", BASE64.encode(r#"{"alg":"none"}"#));
    assert_eq!(check(&none, key.public(), NOW), Err(TokenError::Algorithm("none".into())));
    let unsigned = format!("{}.{payload}.", BASE64.encode(r#"{"alg":"EdDSA"}"#));
    assert_eq!(check(&unsigned, key.public(), NOW), Err(TokenError::Signature));
    let critical = with_header(r#"{"alg":"EdDSA","crit":["exp"]}"#);
    assert!(matches!(check(&critical, key.public(), NOW), Err(TokenError::Form(_))));
    let long = "x".repeat(MAX_LENGTH + 1);
    let empty_id = sign_claims(&key, &Claims { jti: String::new(), ..claims(&key) });
    let long_id = sign_claims(&key, &Claims { jti: "x".repeat(65), ..claims(&key) });
    for wrong in ["", "a", "a.b", "a.b.c", "a.b.c.d", "....", "e30.e30.", &long, &empty_id, &long_id] {
        assert!(matches!(Unverified::parse(wrong), Err(TokenError::Form(_))), "{wrong:.80}");
    }
}

#[test]
fn a_token_counts_once_and_a_full_cache_refuses_rather_than_forgets() {
    let (a, b) = (PrivateKey::generate("").unwrap(), PrivateKey::generate("").unwrap());
    let with = |key: &PrivateKey, jti: &str| Claims { jti: jti.into(), ..claims(key) };
    let mut cache = ReplayCache::new(4);
    cache.use_once(&with(&a, "1"), NOW).unwrap();
    assert_eq!(cache.use_once(&with(&a, "1"), NOW), Err(TokenError::Replayed));
    // As long as it would be taken.
    assert_eq!(cache.use_once(&with(&a, "1"), NOW + 60 + SKEW - 1), Err(TokenError::Replayed));
    // One key may have a quarter; the number is each key's own.
    assert_eq!(cache.use_once(&with(&a, "2"), NOW), Err(TokenError::Full(60 + SKEW)));
    cache.use_once(&with(&b, "1"), NOW).unwrap();
    for key in [PrivateKey::generate("").unwrap(), PrivateKey::generate("").unwrap()] {
        cache.use_once(&with(&key, "1"), NOW).unwrap();
    }
    let late = PrivateKey::generate("").unwrap();
    assert_eq!(cache.use_once(&with(&late, "1"), NOW + 50), Err(TokenError::Full(10 + SKEW)));
    assert_eq!(cache.len(), 4);
    let after = NOW + 60 + SKEW;
    let new = Claims { iat: after, exp: after + 60, ..with(&a, "3") };
    cache.use_once(&new, after).unwrap();
    assert_eq!(cache.len(), 1);
}

#[test]
fn audiences_are_hosts_and_ports_however_they_are_written() {
    for (url, audience) in [
        ("http://127.0.0.1:7400", "127.0.0.1:7400"),
        ("https://Node.Example/graphs?a=b", "node.example:443"),
        ("http://[::1]:7400/", "[::1]:7400"),
        ("http://[::ffff:10.0.0.1]", "10.0.0.1:80"),
        ("10.0.0.1", "10.0.0.1:80"),
        ("https://node.example.:7400", "node.example:7400"),
        ("https://user@node.example", "node.example:443"),
    ] {
        assert_eq!(of_url(url).as_deref(), Some(audience), "{url}");
    }
    for wrong in ["", "ftp://a", "http://", "http://a b", "http://a:b", "http://a:70000", "http://[::1"] {
        assert_eq!(of_url(wrong).filter(|_| wrong != "http://[::1"), None, "{wrong}");
    }
    assert_eq!(of_authority("node", 7400).as_deref(), Some("node:7400"));
    let here = here();
    assert!(here.has("127.0.0.1:7400") && here.has("localhost:7400") && here.has("node.example:7400"));
    assert!(!here.has("node.example:7401") && !here.has("127.0.0.2:7400"));
}

#[test]
fn secrets_are_told_apart_by_their_form_and_kept_as_hashes() {
    let (admin, other) = (Secret::generate(Use::Admin).unwrap(), Secret::generate(Use::Admin).unwrap());
    assert!(admin.reveal().starts_with("weir-admin-") && admin.reveal() != other.reveal());
    let read = Secret::parse(admin.reveal()).unwrap();
    assert!(admin.hash().is_of(&read) && !admin.hash().is_of(&other));
    assert!(!format!("{admin:?}").contains(&admin.reveal()[11..]), "a secret is printed");
    let short = admin.reveal().trim_end_matches(|_: char| true);
    for wrong in [short, "weir-admin-", "weir-admin-AAAA", "weir-x-AAAA", &admin.reveal()[1..]] {
        assert!(Secret::parse(wrong).is_none(), "{wrong}");
    }
    let join = Secret::generate(Use::Join).unwrap();
    let mut terms = JoinTerms { hash: join.hash(), expires: NOW + 10, uses: 1 };
    assert_eq!(terms.use_once(&admin, NOW), Err(JoinError::Unknown));
    assert_eq!(terms.use_once(&Secret::generate(Use::Join).unwrap(), NOW), Err(JoinError::Unknown));
    assert_eq!(terms.use_once(&join, NOW + 10), Err(JoinError::Expired(0)));
    assert_eq!(terms.use_once(&join, NOW + 9), Ok(()));
    assert_eq!(terms.use_once(&join, NOW), Err(JoinError::Used));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever bytes come, the reader says what is wrong with them.
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}", parts in prop::collection::vec("[A-Za-z0-9_=-]{0,40}", 0..5)) {
        let key = PublicKey::from_bytes([7; 32]);
        _ = check(&text, &key, NOW);
        _ = check(&parts.join("."), &key, NOW);
        _ = Secret::parse(&text);
        _ = of_url(&text);
        _ = text.parse::<PublicKey>();
        _ = PrivateKey::from_openssh(&text);
    }

    /// A token with any of its characters changed is refused.
    #[test]
    fn an_altered_token_is_refused(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]") {
        let key = PrivateKey::generate("").unwrap();
        let token = sign(&key, "localhost:7400", REQUEST, NOW).unwrap();
        let at = at.index(token.len());
        let altered = format!("{}{to}{}", &token[..at], &token[at + 1..]);
        prop_assert_eq!(check(&altered, key.public(), NOW).is_ok(), altered == token);
    }

    /// However often clients try: each token counts once while it is good, and no more are remembered than there is room for.
    #[test]
    fn each_token_counts_once(tries in prop::collection::vec((0u64..20, 0u64..40), 0..80)) {
        let key = PrivateKey::generate("").unwrap();
        let (mut cache, mut used) = (ReplayCache::new(40), std::collections::BTreeSet::new());
        let mut now = NOW;
        for (jti, later) in tries {
            now += later / 8;
            let claims = Claims { jti: jti.to_string(), exp: NOW + 60, ..claims(&key) };
            if now >= NOW + 60 + SKEW {
                break;
            }
            let first = !used.contains(&jti);
            match cache.use_once(&claims, now) {
                Ok(()) => prop_assert!(first && used.insert(jti)),
                Err(TokenError::Replayed) => prop_assert!(!first),
                Err(TokenError::Full(_)) => prop_assert!(cache.len() >= 10),
                Err(e) => prop_assert!(false, "{}", e),
            }
            prop_assert!(cache.len() <= 10);
        }
    }
}
