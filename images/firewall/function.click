track :: ConnectionTracker(TCP_TIMEOUT $TCP_TIMEOUT, UDP_TIMEOUT $UDP_TIMEOUT, CAPACITY $CONNECTIONS);

// inside -> outside
in_0 -> from_inside :: Classifier(12/0800, 12/0806, -);
from_inside [0] -> CheckIPHeader(14) -> track [0] -> out_1;
from_inside [1] -> out_1;
from_inside [2] -> Discard;
track [2] -> outward :: IPFilter($RULES) -> [2] track;

// outside -> inside
in_1 -> from_outside :: Classifier(12/0800, 12/0806, -);
from_outside [0] -> CheckIPHeader(14) -> [1] track [1] -> out_0;
from_outside [1] -> out_0;
from_outside [2] -> Discard;
track [3] -> inward :: IPFilter($RETURN_RULES) -> [3] track;
