// Listing 1 of the libVNF paper (SoCC 2018): VNF B of the chain in figure 2. What the listing leaves out is here: types of parameters and
// variables (callbacks also get a length and an error), what it marks by "...", and the lines marked "added".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "weir/vnf.h"

static const char *C_IP_ADDR = "127.0.0.1", *B_IP = "127.0.0.1";
static int C_PORT, B_PORT;
static const int LEN = 32;

struct b_state{
  char* a_req;
  int serverID;
};
void handle_c_reply(int c_sockid, void *requestObj, char *c_reply, size_t, int);
//callback for request from A
void handle_a_req(int a_sockid, void *requestObj, char *a_req, size_t, int) {
  requestObj = allocReqObj(a_sockid, 1);
  //connect to C
  int c_sockid = createClient(C_IP_ADDR, C_PORT, TCP);
  //callback for read on C's socket
  registerCallback(c_sockid, READ, handle_c_reply);
  linkReqObj(c_sockid, requestObj);
  b_state *x = static_cast<b_state*>(requestObj);
  //store state in request object
  x->serverID = a_sockid;
  x->a_req = setPktDNE(a_req);
  //send request to C
  char *c_request = getPktBuf(c_sockid);
  memcpy(c_request, a_req, LEN); // "fill packet buffer"
  sendData(c_sockid, c_request, LEN);
}
//handle function for reply from C
void handle_c_reply(int c_sockid, void *requestObj, char *c_reply, size_t, int) {
  char reply_of_c[LEN]; // "read reply from C"
  memcpy(reply_of_c, c_reply, LEN);
  //retrieve state from request object
  b_state *x = static_cast<b_state*>(requestObj);
  int a_sockid = x->serverID;
  //write reply back to A
  char *a_reply = getPktBuf(a_sockid);
  for (int i = 0; i < LEN; i++) // "compute reply using a_req and c_reply", "fill packet buffer"
    a_reply[i] = x->a_req[i] ^ reply_of_c[i];
  sendData(a_sockid, a_reply, LEN);
  unsetPktDNE(x->a_req);
  freeReqObj(c_sockid);
  freeReqObj(a_sockid);
  closeConn(c_sockid); // added: the listing's C closes
}
int main(int argc, char *argv[]) {
  if (argc != 2) return 2; // added
  C_PORT = atoi(argv[1]);  // added
  int serverID = createServer("", B_IP, B_PORT, TCP);
  printf("%d\n", vnfServerPort(serverID)); // added
  fflush(stdout);                          // added
  //callback function for read on server socket
  registerCallback(serverID, READ, handle_a_req);
  //initialize request object pool
  int reqpool[1] = {sizeof(struct b_state)};
  initReqPool(reqpool, 1);
  startEventLoop();
  return 0;
}
