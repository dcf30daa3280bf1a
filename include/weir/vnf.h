/* libweirvnf: network functions that end connections, after libVNF (SoCC 2018), with the names of its table 1.
 *
 * Link with -lweirvnf (shared), or with libweirvnf.a -lpthread -ldl -lm (static). C11 and C++11 or later.
 *
 *   createServer, registerCallback and initReqPool say what the function is; startEventLoop runs it, with one loop a core. Callbacks of
 *   a core run one after the other on its thread; what they are given (connections, buffers, request objects) belongs to that core and
 *   is unknown on others. Only state (setData, getData) is shared.
 *
 * Errors are negative: a VnfError, or minus errno. What returns a pointer returns NULL, and vnfLastError() says why. vnfErrorText() has
 * name and meaning. Every wrong argument that is no wild C string is an error and changes nothing.
 */


#ifndef WEIR_VNF_H
#define WEIR_VNF_H

/* Made from crates/weir-vnf-c by cbindgen: change that, then run BLESS=1 cargo test -p weir-vnf-c header. */

#include <stddef.h>
#include <stdint.h>

// Bytes of a packet buffer.
#define VNF_BUFFER_SIZE 2048

// Protocols of servers and clients.
typedef enum {
  // A stream: a packet buffer may hold a part of a message, or several.
  TCP = 6,
  // Datagrams, which may be lost: one a packet buffer, at most VNF_BUFFER_SIZE bytes.
  UDP = 17,
} VnfProtocol;

// An event of a connection, for which callbacks are registered.
typedef enum {
  // Data has come.
  READ = 1,
  // A server accepted a connection; of UDP: a datagram came of a peer that there is no connection for.
  ACCEPT = 2,
  // Something failed; the argument `error` says what.
  ERROR = 3,
  // The loop of a core begins: once a core, on its thread, registered with connection 0.
  START = 4,
  // All that waited to be sent on a connection because its peer (or the network) was slow is sent.
  SENT = 5,
} VnfEvent;

// Where state is kept.
typedef enum {
  // In this process, shared by its cores.
  LOCAL = 1,
  // In Redis, shared by all replicas: a table is a hash of Redis. See startEventLoop for where Redis is.
  REMOTE = 2,
  // Of getData: what this core has last seen of REMOTE, however old it is; in Redis, if it has not seen it (or not lately).
  CHECKCACHE = 3,
} VnfLocation;

// An event of a replica.
typedef enum {
  // It is there.
  ADD = 1,
  // It is not there any more.
  REMOVE = 2,
} VnfTask;

// Why something happened to a replica.
typedef enum {
  // The orchestrator does not say.
  UNKNOWN = 0,
  // Somebody works on it.
  MAINTENANCE = 1,
  // It failed.
  FAILURE = 2,
  // There was too much to do for those that there were.
  OVERLOAD = 3,
} VnfReason;

// Why a call or a connection failed. Beside these there is minus errno: what the operating system refused.
typedef enum {
  // No error.
  VNF_OK = 0,
  // An argument is NULL where that is not allowed, no text in UTF-8, or out of its range.
  VNF_ARGUMENT = -10001,
  // The address is neither IPv4 nor IPv6, as numbers.
  VNF_ADDRESS = -10002,
  // The call belongs into a callback.
  VNF_NO_CALLBACK = -10003,
  // The call belongs before startEventLoop.
  VNF_STARTED = -10004,
  // There is no such connection on this core: it was closed, is of another core, or never was.
  VNF_CONNECTION = -10005,
  // The function does not hold this buffer: it was sent, its callback is over, or it never was one.
  VNF_BUFFER = -10006,
  // The buffer was not kept by setPktDNE, or was given back already.
  VNF_NOT_KEPT = -10007,
  // More bytes than a buffer holds, or of a request object more than 1 MiB.
  VNF_SIZE = -10008,
  // This is no request object of this core: it was freed, or never was one.
  VNF_REQUEST = -10009,
  // The request object is linked to the connection already.
  VNF_LINKED = -10010,
  // No request object is linked to the connection.
  VNF_NO_REQUEST = -10011,
  // There is no type of request object with this number: initReqPool says which there are.
  VNF_REQUEST_TYPE = -10012,
  // More than 4 MiB wait to be sent on the connection: its peer does not read as fast as is sent. UDP: the kernel takes no datagram now.
  VNF_QUEUE_FULL = -10013,
  // The core has as many connections as it can name.
  VNF_TOO_MANY = -10014,
  // The peer will send nothing more.
  VNF_PEER_CLOSED = -10015,
  // A callback held up its core for too long (startEventLoop says how long).
  VNF_BLOCKED = -10016,
  // A buffer was kept by setPktDNE, and the request object (or connection) that it belonged to is gone: it is taken back.
  VNF_LEAKED = -10017,
  // There is no such key.
  VNF_NO_KEY = -10018,
  // An orchestrator cannot be reached, or its answer not understood; it is asked again.
  VNF_ORCHESTRATOR = -10019,
  // A datagram of more than VNF_BUFFER_SIZE bytes came, and is thrown away; the connection goes on.
  VNF_TOO_LONG = -10020,
  // There is no REMOTE state: startEventLoop says what names Redis.
  VNF_NO_REMOTE = -10021,
  // Redis did not answer in time; whether a change was or will be made is not known.
  VNF_REMOTE_TIMEOUT = -10022,
  // The connection with Redis was lost; whether a change was made is not known.
  VNF_REMOTE_LOST = -10023,
  // Redis refused.
  VNF_REMOTE_REFUSED = -10024,
  // The key has another value than compareAndSetData expected.
  VNF_DIFFERS = -10025,
} VnfError;

// A callback for an event of a connection.
//
// connection: its number, or 0 if there is none.
// request: the request object that was linked to the connection before all others that still are, or NULL.
// packet, length: what came (READ), or the buffer that is taken back (VNF_LEAKED); else NULL and 0. The buffer is the function's until
// the callback returns, unless setPktDNE keeps it or sendData takes it.
// error: 0, or why the ERROR callback was called (a VnfError, or minus errno).
typedef void (*VnfCallback)(int connection, void *request, char *packet, size_t length, int error);

// A callback for the end of setData. The key is valid until it returns; error is 0 or a VnfError (see setData).
typedef void (*VnfSetCallback)(int connection, const void *key, size_t key_size, void *request, int error);

// A callback for the end of getData or compareAndSetData. Key and value are valid until it returns, the value longer if setKeyDNE keeps
// it; error is 0 or a VnfError. The value is NULL if there is none.
typedef void (*VnfGetCallback)(int connection, const void *key, size_t key_size, const void *value, size_t size, void *request, int error);

// A callback for a replica that comes or goes: ADD or REMOVE, the name of the function that it is a replica of, its address, and one of
// VnfReason. The strings are valid until it returns.
typedef void (*VnfNotice)(int task, const char *vnf_name, const char *vnf_ip_address, int event);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The error of the last call on this thread; 0 if it succeeded.
int vnfLastError(void);

// The name and meaning of an error of this library, or strerror's text for minus errno; never freed.
const char *vnfErrorText(int error);

// A1. Listens at an address; before startEventLoop. Several servers may be created. Connections are spread over the cores; a
// connection stays on its core.
//
// interface: NULL or "", or the network interface that connections must come by (of the kernel's stack; one in user space has one).
// ip: an IPv4 or IPv6 address as numbers; "" means all of IPv4. On a stack in user space, one of its addresses.
// port: in host byte order; with 0 one is chosen, and vnfServerPort says which.
// protocol: TCP or UDP. A connection of a UDP server is what is known of a peer: it begins with a datagram, and lasts as long as request
// objects are linked to it; without any, until the READ callback of the datagram returns.
//
// Returns the server's number, greater than 0, or an error: VNF_STARTED, VNF_ARGUMENT, VNF_ADDRESS, minus errno.
//
// # Safety
// Strings end with a zero byte.
int createServer(const char *interface, const char *ip, int port, int protocol);

// The port of a server in host byte order, or VNF_ARGUMENT if there is no such server. From any thread.
int vnfServerPort(int server);

// A2. Starts one loop a core, each on a thread of its own that is pinned to its core, and waits until stopEventLoop. Once in a process.
//
// Environment:
//   WEIR_VNF_STACK           the stack that connections are on (kernel); one in user space is described by a line such as
//                            user,device=veth0,address=10.0.0.2/24,gateway=10.0.0.1 (docs/vnf.md)
//   WEIR_VNF_CORES           number of loops (all CPUs that the process may use)
//   WEIR_VNF_CALLBACK_MS     milliseconds that a callback may take until it is reported as VNF_BLOCKED (500): on standard error while it
//                            runs, and to the ERROR callback of connection 0 when it returns
//   WEIR_VNF_REDIS           IP:PORT of the Redis for REMOTE state; [IP]:PORT for IPv6 (there is no remote state)
//   WEIR_VNF_REDIS_PASSWORD  its password (none)
//   WEIR_VNF_REDIS_MS        milliseconds until a call without an answer fails as VNF_REMOTE_TIMEOUT (1000)
//   WEIR_VNF_CACHE_KB        kilobytes of each core's cache of remote state (65536)
//
// Returns 0 after stopEventLoop, or an error: VNF_STARTED, VNF_ARGUMENT (a variable of the environment is wrong), minus errno.
// All connections are closed then, and all buffers and request objects gone.
int startEventLoop(void);

// Asks the loops to end, and does not wait: startEventLoop returns when they have. From any thread, callback or signal handler, also
// before startEventLoop.
void stopEventLoop(void);

// The number of this core's loop, from 0, or VNF_NO_CALLBACK: for state of one's own by core, which needs no lock.
int vnfCore(void);

// C1. Opens a connection from this core, without waiting for it: data may be sent at once; a failure arrives as an ERROR event, behind
// which the connection is closed. In a callback.
//
// ip: an IPv4 or IPv6 address as numbers. port: in host byte order. protocol: TCP or UDP.
//
// Returns the number of the connection, greater than 0, or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_ADDRESS, VNF_TOO_MANY, minus
// errno. A number is known on its core only; that of a closed connection is not used again before all others were.
//
// # Safety
// The string ends with a zero byte.
int createClient(const char *ip, int port, int protocol);

// C2. Registers what is called when something happens to a connection; NULL: nothing. It replaces what was registered before.
//
// connection: of a server (before startEventLoop): for all connections that it accepts, each with its own number. Of a connection (in a
// callback on its core): for that one. 0 (before startEventLoop): for the function itself, START and ERROR (VNF_BLOCKED, with the
// connection, VNF_LEAKED; if nothing is registered, they are lines on standard error).
// event: READ, ACCEPT (of servers), ERROR, SENT, START (of 0).
//
// Events of a connection come in their order and on its core's thread; no two callbacks of a core run at once. A callback must not wait
// for anything: the other connections of its core wait for it. ERROR with VNF_PEER_CLOSED: the peer sends no more, but may still read;
// the connection is closed when no request object is linked to it (any more). VNF_TOO_LONG: it goes on. Every other ERROR: the connection
// has failed (it could not be made, the peer reset it, …) and is closed when the callback returns. What comes while no READ callback is registered is thrown away.
//
// Returns 0 or an error: VNF_STARTED, VNF_NO_CALLBACK, VNF_CONNECTION, VNF_ARGUMENT (no such event of this connection).
int registerCallback(int connection,
                     int event,
                     VnfCallback callback);

// C4. Sends the first length bytes of a packet buffer behind what was sent before, without waiting. The buffer is gone with this call,
// also if it fails; one that setPktDNE keeps is copied and stays. A failure of the connection arrives as an ERROR event. In a callback.
//
// connection: any of this core. packet: from getPktBuf, or one that came. length: 0 to VNF_BUFFER_SIZE.
//
// Returns 0 or an error, with which nothing is sent: VNF_NO_CALLBACK, VNF_BUFFER, VNF_SIZE (the buffer stays), VNF_CONNECTION,
// VNF_QUEUE_FULL.
int sendData(int connection, char *packet, size_t length);

// Bytes that wait to be sent on a connection, at most 4 MiB; SENT is called when there are none any more. In a callback.
//
// Returns them or an error: VNF_NO_CALLBACK, VNF_CONNECTION.
int vnfQueued(int connection);

// Has no data of a connection come for now (paused is not 0), or has it come again (0): a function that passes data on to a slower peer
// lets the kernel hold up the faster one. Nothing is lost. Peers of UDP servers cannot be held up. In a callback.
//
// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION.
int vnfPause(int connection, int paused);

// C7. Closes a connection once all that was sent before is out. Its request objects are unlinked now, and no callback comes any more.
// In a callback.
//
// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION.
int closeConn(int connection);

// C3. A packet buffer of VNF_BUFFER_SIZE bytes, to be filled and sent; it holds what an earlier use left there. It is the function's
// until it is sent or the callback returns, unless setPktDNE keeps it. In a callback.
//
// connection: what it will be sent on; any of this core.
//
// Returns NULL on an error: VNF_NO_CALLBACK, VNF_CONNECTION.
char *getPktBuf(int connection);

// C5. Keeps a packet buffer ("do not evict") until unsetPktDNE. It belongs to the request object that was linked last to the connection
// that it came from (or that getPktBuf was asked for); if none is, to that connection. When its owner is gone, a buffer that is still
// kept is reported as VNF_LEAKED to the ERROR callback of connection 0, and taken back when that returns. In a callback.
//
// Returns the packet, or NULL on an error: VNF_NO_CALLBACK, VNF_CONNECTION (it is closed), VNF_BUFFER (also: it is kept already).
char *setPktDNE(char *packet);

// C6. Gives a kept packet buffer back: it is the function's until the callback returns, as one that came. In a callback.
//
// Returns 0 or an error: VNF_NO_CALLBACK, VNF_BUFFER, VNF_NOT_KEPT (also: given back before).
int unsetPktDNE(char *packet);

// R1. Says which types of request objects there are; before startEventLoop, once. Each core has memory for 1,024 objects of each type
// (of large ones for 1 MiB) from the start, and asks the system for more when they are used up.
//
// sizes: bytes of each type, at most 1 MiB each. types: how many there are.
//
// Returns 0 or an error: VNF_STARTED, VNF_ARGUMENT, VNF_SIZE.
//
// # Safety
// sizes points to as many numbers as types says.
int initReqPool(const int *sizes, int types);

// R2. A new request object, filled with zeroes, linked to a connection behind those that are linked to it already: several requests of a
// connection may be under way. It is valid, aligned for all types, until its last link is gone: by freeReqObj, or because the connection
// was closed or failed. In a callback.
//
// type: 1 for the first type of initReqPool, and so on.
//
// Returns NULL on an error: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_REQUEST_TYPE.
void *allocReqObj(int connection, int type);

// R3. Links a request object to another connection too, behind those that are linked to that. In a callback.
//
// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_REQUEST, VNF_LINKED.
int linkReqObj(int connection, void *request);

// R4. Unlinks a request object from a connection: the one that the callback was called with, if it is linked to this connection; else
// the one that was linked to it first. With its last link it is freed when the callback returns. If the peer closed its side before and
// this was the connection's last request object, the connection is closed. In a callback.
//
// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_NO_REQUEST (also: freed before).
int freeReqObj(int connection);

// D1. Sets the value of a key, and calls back (not before the callback that this is called from returns); not if the connection is
// closed by then. In a callback.
//
// connection: what the callback is for; 0: for none.
// table: any text. key, value: any bytes, copied by this call.
// location: LOCAL: all cores of this process see the value from now on. REMOTE: all replicas do when it is called back without an error;
// it is called back with an error within the time that startEventLoop says: VNF_REMOTE_TIMEOUT and VNF_REMOTE_LOST (the value may have been
// set, or may still be), VNF_REMOTE_REFUSED. Calls of a core are carried out in their order.
// callback: NULL if nobody needs to know.
//
// Returns 0 or an error, with which nothing is called back: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_ARGUMENT, VNF_NO_REMOTE, VNF_QUEUE_FULL
// (64 MiB wait to be sent to Redis).
//
// # Safety
// The string ends with a zero byte; key and value point to as many bytes as their sizes say.
int setData(int connection,
            const char *table,
            const void *key,
            size_t key_size,
            const void *value,
            size_t size,
            int location,
            VnfSetCallback callback);

// D2. Gets the value of a key, and calls back (not before the callback that this is called from returns) with the value, or with
// VNF_NO_KEY; not if the connection is closed by then. In a callback.
//
// location: LOCAL: the value that the key has at this call. REMOTE: the value that it has at some time between this call and the callback.
// CHECKCACHE: a value that this core has got or set before, or as REMOTE.
//
// Other arguments and errors are those of setData; callback is not NULL.
//
// # Safety
// The string ends with a zero byte; the key points to as many bytes as its size says.
int getData(int connection, const char *table, const void *key, size_t key_size, int location, VnfGetCallback callback);

// D3. Deletes a key, LOCAL or REMOTE. In a callback. If Redis fails later, connection 0 gets an ERROR.
//
// Returns 0, also if there is no such key, or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_NO_REMOTE, VNF_QUEUE_FULL.
//
// # Safety
// The string ends with a zero byte; the key points to as many bytes as its size says.
int delData(const char *table, const void *key, size_t key_size, int location);

// Sets the value of a key if it has the value that is expected, atomically for all cores (LOCAL) or replicas (REMOTE), and calls back as
// getData does: without an error if it was set; with VNF_DIFFERS and the value that the key has, and keeps; or with an error of setData.
// In a callback.
//
// expected: NULL: the key is not there. value: NULL: the key is deleted.
//
// Other arguments and errors are those of setData; callback is not NULL.
//
// # Safety
// The string ends with a zero byte; key, expected and value point to as many bytes as their sizes say.
int compareAndSetData(int connection,
                      const char *table,
                      const void *key,
                      size_t key_size,
                      const void *expected,
                      size_t expected_size,
                      const void *value,
                      size_t size,
                      int location,
                      VnfGetCallback callback);

// D4. Keeps a value ("do not evict"): the pointer to it that getData gave stays valid, and the value as it is, until unsetKeyDNE, also if
// the key gets another value or is deleted. In a getData callback for this key, or, for the value that a LOCAL key has now, in any
// callback. Each call keeps one value and wants one unsetKeyDNE on the same core.
//
// Returns 0 or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_NO_KEY.
//
// # Safety
// The string ends with a zero byte; the key points to as many bytes as its size says.
int setKeyDNE(const char *table, const void *key, size_t key_size);

// D5. Gives back the value of a key that setKeyDNE kept first on this core. In a callback.
//
// Returns 0 or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_NO_KEY (no value of this key is kept on this core).
//
// # Safety
// The string ends with a zero byte; the key points to as many bytes as its size says.
int unsetKeyDNE(const char *table, const void *key, size_t key_size);

// O1. Follows an orchestrator, which says which replicas of functions come and go; before startEventLoop. Every core calls back for every
// notice, within a second of when it was sent: so each core may have a list of its own, without a lock.
//
// The library asks the orchestrator by HTTP for /replicas; the answer does not end, begins with an "add" for each replica that there is,
// and has a line for each change (docs/vnf.md):
//   {"task":"remove","name":"b","address":"10.0.0.7","reason":"failure"}
// While it cannot be reached or understood, it is asked again every second, and connection 0 gets one ERROR, VNF_ORCHESTRATOR.
//
// Returns 0 or an error: VNF_STARTED, VNF_ARGUMENT, VNF_ADDRESS.
//
// # Safety
// The string ends with a zero byte.
int registerforNotification(const char *ip, int port, VnfNotice callback);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEIR_VNF_H */
