// inside -> outside
in_0 -> from_inside :: Classifier(12/0800, 12/0806, -);
from_inside [0] -> CheckIPHeader(14) -> outward :: IPFilter($RULES) -> out_1;
from_inside [1] -> out_1;
from_inside [2] -> Discard;

// outside -> inside
in_1 -> from_outside :: Classifier(12/0800, 12/0806, -);
from_outside [0] -> CheckIPHeader(14) -> inward :: IPFilter($RETURN_RULES) -> out_0;
from_outside [1] -> out_0;
from_outside [2] -> Discard;
