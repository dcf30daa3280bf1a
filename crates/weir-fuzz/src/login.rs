//! What clients send to log in.

use std::sync::LazyLock;

use weir_auth::audience::{Audiences, of_authority};
use weir_auth::key::{PrivateKey, PublicKey};
use weir_auth::secret::Secret;
use weir_auth::token::{Claims, Expected, Unverified, request, sign_claims};

/// A key for this alone.
const KEY: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----\n\
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n\
QyNTUxOQAAACA27Y51AKFfp92nrweIDcKtO9hDWeGpwEYZGuzrbEfkcAAAAIiAa0eEgGtH\n\
hAAAAAtzc2gtZWQyNTUxOQAAACA27Y51AKFfp92nrweIDcKtO9hDWeGpwEYZGuzrbEfkcA\n\
AAAEB407H16sogiMCxuatZPGm/gQnZ7M5sCu8leIG+IstDzTbtjnUAoV+n3aevB4gNwq07\n\
2ENZ4anARhka7OtsR+RwAAAABGZ1enoB\n\
-----END OPENSSH PRIVATE KEY-----\n\
";
const NOW: u64 = 1_800_000_000;

static SIGNER: LazyLock<PrivateKey> =
    LazyLock::new(|| PrivateKey::from_openssh(KEY).expect("the key is one"));

/// The only token that is good.
static TOKEN: LazyLock<String> = LazyLock::new(|| {
    let sub = SIGNER.public().fingerprint();
    let (aud, req) = ("node.example:7400".into(), request("GET", "/v1/graphs"));
    sign_claims(&SIGNER, &Claims { sub, aud, req, iat: NOW, exp: NOW + 60, jti: "fuzz".into() })
});

/// Tokens, keys, secrets and names of servers: the readers take any text, no token is good but the one that was signed, and what is
/// accepted reads back.
pub fn login(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut audiences = Audiences::default();
    assert!(audiences.add_name("node.example", 7400));
    let expected = Expected { audiences: &audiences, request: "GET /v1/graphs", now: NOW, since: 0 };
    if let Ok(token) = Unverified::parse(&text)
        && token.verify(SIGNER.public(), &expected).is_ok()
    {
        assert_eq!(text, *TOKEN, "a token that nobody signed is good");
    }
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string().parse::<PublicKey>().as_ref(), Ok(&key));
    }
    if let Ok(key) = PrivateKey::from_openssh(&text) {
        let again = PrivateKey::from_openssh(&key.to_openssh().expect("a key can be written"));
        assert_eq!(again.expect("a key reads back").public(), key.public());
    }
    if let Some(secret) = Secret::parse(&text) {
        assert!(secret.hash().is_of(&secret));
    }
    if let Some(audience) = of_authority(&text, 443) {
        assert_eq!(of_authority(&audience, 1).as_ref(), Some(&audience));
    }
}

pub(crate) fn login_seeds() -> Vec<Vec<u8>> {
    let secret = format!("weir-admin-{}", "A".repeat(43));
    [&*TOKEN, &SIGNER.public().to_string(), KEY, &secret, "Node.example:7400", "[::1]:7400"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
