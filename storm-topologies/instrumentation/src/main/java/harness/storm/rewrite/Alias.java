package harness.storm.rewrite;

import java.io.Serializable;

/**
 * Where a tuple on a hidden stream would have come from without the layer.
 *
 * @param component the helped one
 * @param stream its stream
 */
record Alias(String component, String stream) implements Serializable {
}
