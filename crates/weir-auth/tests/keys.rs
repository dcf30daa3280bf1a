//! Keys in OpenSSH's files, held against ssh-keygen where it is there.

use std::process::Command;

use weir_auth::key::{KeyError, PrivateKey, PublicKey};

const PUBLIC: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4 alice@example";

fn refused(text: &str) -> KeyError {
    text.parse::<PublicKey>().unwrap_err()
}

#[test]
fn a_public_key_is_read_and_written_and_has_the_fingerprint_of_openssh() {
    let key: PublicKey = format!("\n# mine\n{PUBLIC}\n").parse().unwrap();
    assert_eq!((key.to_string().as_str(), key.comment()), (PUBLIC, "alice@example"));
    let print = key.fingerprint().to_string();
    assert!(print.starts_with("SHA256:") && print.len() == 50, "{print}");
    assert_eq!(PublicKey::from_bytes(*key.bytes()).fingerprint(), key.fingerprint());
}

#[test]
fn what_is_no_ed25519_public_key_is_refused_by_its_kind() {
    for kind in ["ssh-rsa", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com", "ssh-dss"] {
        assert_eq!(refused(&format!("{kind} AAAA x")), KeyError::Kind { kind: kind.into() });
    }
    assert_eq!(refused("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA"), KeyError::Private);
    for wrong in
        ["", "hello", "ssh-ed25519", "ssh-ed25519 AAAA", &format!("{PUBLIC}\n{PUBLIC}"), &"x".repeat(1 << 20)]
    {
        assert!(matches!(refused(wrong), KeyError::Form { .. }), "{wrong:.80}");
    }
    // Bytes of another kind under the name of this one.
    assert!(PUBLIC.replace("AAAAC3", "AAAAB3").parse::<PublicKey>().is_err());
}

#[test]
fn a_new_private_key_survives_its_file_and_signs() {
    let key = PrivateKey::generate("me").unwrap();
    let text = key.to_openssh().unwrap();
    let again = PrivateKey::from_openssh(&text).unwrap();
    assert_eq!(again.public(), key.public());
    let signature = again.sign(b"hello");
    assert!(key.public().verifies(b"hello", &signature));
    assert!(!key.public().verifies(b"hallo", &signature));
    assert!(!key.public().verifies(b"hello", &signature[1..]));
    assert!(!PrivateKey::generate("").unwrap().public().verifies(b"hello", &signature));
    assert!(!format!("{key:?}").contains(text.lines().nth(2).unwrap()), "a secret is printed");
    assert_eq!(PrivateKey::from_openssh(&key.public().to_string()).unwrap_err(), KeyError::Public);
    assert!(matches!(PrivateKey::from_openssh("hello").unwrap_err(), KeyError::Form { .. }));
}

/// RFC 8032, section 7.1, test 2: what others sign, and verify, is the same.
#[test]
fn signatures_are_those_of_the_rfc() {
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    };
    let public = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    let signature = hex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    );
    assert!(PublicKey::from_bytes(public.try_into().unwrap()).verifies(&[0x72], &signature));
}

/// A key of ssh-keygen's: its private and its public file, and what it says of it.
fn keygen(kind: &[&str]) -> Option<(String, String, String)> {
    let directory =
        std::env::temp_dir().join(format!("weir-auth-{}-{}", std::process::id(), kind.join("-").len()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("key");
    let run = |arguments: &[&str]| Command::new("ssh-keygen").args(arguments).arg("-f").arg(&file).output();
    let made = run(&[&["-q", "-C", "bob@example"], kind].concat()).ok()?;
    assert!(made.status.success(), "{made:?}");
    let listed = String::from_utf8(run(&["-l"]).ok()?.stdout).unwrap();
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let files = (read("key"), read("key.pub"), listed);
    std::fs::remove_dir_all(directory).unwrap();
    Some(files)
}

#[test]
fn files_of_ssh_keygen_are_taken_or_refused_with_a_reason() {
    let Some((private, public, listed)) = keygen(&["-t", "ed25519", "-N", ""]) else {
        eprintln!("skipped: there is no ssh-keygen");
        return;
    };
    let key = PrivateKey::from_openssh(&private).unwrap();
    assert_eq!(key.public(), &public.parse().unwrap());
    assert!(listed.contains(key.public().fingerprint().as_str()), "{listed}");
    // And ssh-keygen's own reader takes ours.
    assert_eq!(PrivateKey::from_openssh(&key.to_openssh().unwrap()).unwrap().public(), key.public());

    let (private, ..) = keygen(&["-t", "ed25519", "-N", "sesame"]).unwrap();
    assert_eq!(PrivateKey::from_openssh(&private).unwrap_err(), KeyError::Encrypted);
    for (kind, name) in
        [(["-t", "rsa", "-b", "2048"], "ssh-rsa"), (["-t", "ecdsa", "-b", "256"], "ecdsa-sha2-nistp256")]
    {
        let (private, public, _) = keygen(&[&kind[..], &["-N", ""]].concat()).unwrap();
        assert_eq!(refused(&public), KeyError::Kind { kind: name.into() });
        assert!(matches!(PrivateKey::from_openssh(&private), Err(KeyError::Kind { .. })), "{name}");
    }
}
