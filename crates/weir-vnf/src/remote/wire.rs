//! Commands and replies of Redis (RESP3).

use redis_protocol::error::RedisProtocolErrorKind;
use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;

/// Sets a key of a hash to a value, or deletes it, if it has the value (or is not there) that is expected; else gives its value.
const COMPARE_AND_SET: &[u8] = b"\
local now = redis.call('HGET', KEYS[1], ARGV[1])
local want = ARGV[2] == '1' and ARGV[3] or false
if now ~= want then return {0, now} end
if ARGV[4] == '1' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[5]) else redis.call('HDEL', KEYS[1], ARGV[1]) end
return {1}";

/// Adds a command.
pub(crate) fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// Adds the command that compares and sets.
pub(crate) fn compare_and_set(
    out: &mut Vec<u8>,
    table: &[u8],
    key: &[u8],
    expected: Option<&[u8]>,
    new: Option<&[u8]>,
) {
    let flag = |value: Option<&[u8]>| if value.is_some() { b"1" } else { b"0" };
    let (expects, sets) = (flag(expected), flag(new));
    let (expected, new) = (expected.unwrap_or_default(), new.unwrap_or_default());
    command(out, &[b"EVAL", COMPARE_AND_SET, b"1", table, key, expects, expected, sets, new]);
}

/// A reply, as far as the library needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
    /// What Redis refuses a command with.
    Error(String),
    /// Anything else.
    Other,
}

/// The reply that `input` begins with, and how many bytes it has; `None` if it is not complete.
pub(crate) fn reply(input: &[u8]) -> Result<Option<(Reply, usize)>, String> {
    match decode(input) {
        Ok(frame) => Ok(frame.map(|(frame, length)| (value(frame), length))),
        Err(error) if matches!(error.kind(), RedisProtocolErrorKind::BufferTooSmall(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn value(frame: OwnedFrame) -> Reply {
    match frame {
        OwnedFrame::Null => Reply::Nil,
        OwnedFrame::Number { data, .. } => Reply::Number(data),
        OwnedFrame::BlobString { data, .. } | OwnedFrame::SimpleString { data, .. } => Reply::Bytes(data),
        OwnedFrame::Array { data, .. } => Reply::List(data.into_iter().map(value).collect()),
        OwnedFrame::SimpleError { data, .. } => Reply::Error(data),
        OwnedFrame::BlobError { data, .. } => Reply::Error(String::from_utf8_lossy(&data).into_owned()),
        _ => Reply::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_any_bytes() {
        let mut out = Vec::new();
        command(&mut out, &[b"HSET", b"", b"\r\n\0"]);
        assert_eq!(out, b"*3\r\n$4\r\nHSET\r\n$0\r\n\r\n$3\r\n\r\n\0\r\n");
    }

    #[test]
    fn replies_are_read_one_by_one_and_not_before_they_are_complete() {
        let input = b"$3\r\na\r\n\r\n_\r\n:-7\r\n*2\r\n:0\r\n_\r\n-ERR no\r\n";
        let mut replies = Vec::new();
        let mut at = 0;
        for end in 0..=input.len() {
            while let Some((reply, length)) = reply(&input[at..end]).expect("it is RESP3") {
                replies.push(reply);
                at += length;
            }
        }
        let expected = [
            Reply::Bytes(b"a\r\n".to_vec()),
            Reply::Nil,
            Reply::Number(-7),
            Reply::List(vec![Reply::Number(0), Reply::Nil]),
            Reply::Error("ERR no".into()),
        ];
        assert_eq!(replies, expected);
        assert!(reply(b"HTTP/1.1 400 Bad Request\r\n").is_err());
    }
}
