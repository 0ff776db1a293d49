package harness.storm.submit;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.List;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.NimbusSummary;
import org.apache.storm.generated.TopologyHistoryInfo;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.Utils;

/** What a Nimbus that has no topologies says to somebody who looks around and then submits one. */
final class NimbusWithoutTopologies {

    private NimbusWithoutTopologies() {
    }

    /**
     * The answer to a call of {@code Nimbus.Iface}; of what does not exist, the exception that says so.
     *
     * @throws SubmitException where only a cluster could answer
     */
    static Object answer(Method method) throws Throwable {
        switch (method.getName()) {
            case "isTopologyNameAllowed" -> {
                return true;
            }
            case "isRemoteBlobExists" -> {
                return false;
            }
            case "beginFileUpload" -> {
                return "nowhere";
            }
            case "getClusterInfo" -> {
                return new ClusterSummary(List.of(), List.of(), List.of());
            }
            case "getTopologyHistory" -> {
                return new TopologyHistoryInfo();
            }
            case "getNimbusConf" -> {
                return JSONValue.toJSONString(Utils.readStormConfig());
            }
            case "getLeader" -> {
                return new NimbusSummary("localhost", 0, 0, true, "");
            }
            default -> {
            }
        }
        for (Class<?> thrown : method.getExceptionTypes()) {
            // what is asked for by a name or a key is not there
            if (thrown.getSimpleName().matches("NotAliveException|KeyNotFoundException")) {
                Constructor<?> constructor = thrown.getConstructor(String.class);
                throw (Throwable) constructor.newInstance("no topology runs while one is described");
            }
        }
        if (method.getReturnType() == void.class) {
            return null;
        }
        if (method.getReturnType() == List.class) {
            return List.of();
        }
        throw SubmitException.failed("main asks Nimbus for " + method.getName()
            + ", and no cluster runs while a topology is described");
    }
}
