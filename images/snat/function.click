routes :: StaticIPLookup($INSIDE_IP 2, $OUTSIDE_IP 2, $INSIDE_NET 0, $OUTSIDE_ROUTES);
nat :: IPRewriter(pattern $OUTSIDE_IP $PORTS - - 0 1, drop, UDP_TIMEOUT $UDP_TIMEOUT);
inside_arp :: ARPQuerier($INSIDE_IP, $INSIDE_MAC);
outside_arp :: ARPQuerier($OUTSIDE_IP, $OUTSIDE_MAC);

in_0 -> from_inside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_inside [0] -> ARPResponder($INSIDE_IP $INSIDE_MAC) -> out_0;
from_inside [1] -> [1] inside_arp;
from_inside [2] -> Strip(14) -> CheckIPHeader -> mine :: IPClassifier(dst host $INSIDE_IP or dst host $OUTSIDE_IP, -);
from_inside [3] -> Discard;
mine [0] -> routes;
mine [1] -> ttl :: DecIPTTL -> nat;
// Packets with options get no answer: those may be source routes (RFC 7126), of which the answer would carry the reverse.
ttl [1] -> plain :: IPClassifier(ip hl 5, -) -> ICMPError($INSIDE_IP, timeexceeded, transit) -> routes;
plain [1] -> Discard;

in_1 -> from_outside :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_outside [0] -> ARPResponder($OUTSIDE_IP $OUTSIDE_MAC) -> out_1;
from_outside [1] -> [1] outside_arp;
from_outside [2] -> Strip(14) -> CheckIPHeader -> answer :: IPClassifier(icmp, -);
from_outside [3] -> Discard;
answer [0] -> routes;
answer [1] -> [1] nat;

nat [0] -> routes;
nat [1] -> routes;
routes [0] -> inside_arp -> out_0;
routes [1] -> outside_arp -> out_1;
routes [2] -> ICMPPingResponder -> routes;
