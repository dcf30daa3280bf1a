nat :: IPRewriter(pattern - - $SERVER $SERVER_PORT 0 1, drop);
routes :: StaticIPLookup($INSIDE_IP 2, $OUTSIDE_IP 2, $INSIDE_NET 0, $OUTSIDE_ROUTES);
inside_arp :: ARPQuerier($INSIDE_IP, $INSIDE_MAC);
outside_arp :: ARPQuerier($OUTSIDE_IP, $OUTSIDE_MAC);

in_1 -> from_outside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_outside [0] -> ARPResponder($OUTSIDE_IP $OUTSIDE_MAC) -> out_1;
from_outside [1] -> [1] outside_arp;
from_outside [2] -> Strip(14) -> CheckIPHeader(BADSRC $INSIDE_IP $OUTSIDE_IP) -> asked :: IPClassifier(
  dst host $OUTSIDE_IP and ($SERVICE),
  dst host $OUTSIDE_IP and icmp type echo,
  dst host $OUTSIDE_IP and (icmp type 3 or icmp type 11 or icmp type 12),
  -);
from_outside [3] -> Discard;
asked [0] -> nat;
asked [1] -> ICMPPingResponder -> routes;
asked [2] -> ICMPRewriter(nat) -> routes;
asked [3] -> Discard;

in_0 -> from_inside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_inside [0] -> ARPResponder($INSIDE_IP $INSIDE_MAC) -> out_0;
from_inside [1] -> [1] inside_arp;
from_inside [2] -> Strip(14) -> CheckIPHeader(BADSRC $INSIDE_IP $OUTSIDE_IP) -> answered :: IPClassifier(
  tcp or udp,
  dst host $INSIDE_IP and icmp type echo,
  icmp type 3 or icmp type 11 or icmp type 12,
  -);
from_inside [3] -> Discard;
answered [0] -> [1] nat;
answered [1] -> ICMPPingResponder -> routes;
// An error of the server comes from the address that clients know.
answered [2] -> ICMPRewriter(nat) -> StoreIPAddress($OUTSIDE_IP, src) -> routes;
answered [3] -> Discard;

nat [0] -> ttl :: DecIPTTL -> routes;
nat [1] -> ttl;
routes [0] -> inside_arp -> out_0;
routes [1] -> outside_arp -> out_1;
routes [2] -> Discard;
