/* What the harness uses of Nimbus (Storm 2.6 to 2.8): field numbers and types as in storm-client's
   org.apache.storm.generated.*; fields and methods that are not listed here are skipped when read. */
namespace py nimbus

exception NotAliveException { 1: string msg }
exception AuthorizationException { 1: string msg }
exception InvalidTopologyException { 1: string msg }

struct NimbusSummary {
  1: string host
  2: i32 port
  3: i32 uptime_secs
  4: bool isLeader
  5: string version
}

struct SupervisorSummary {
  1: string host
  2: i32 uptime_secs
  3: i32 num_workers       // slots
  4: i32 num_used_workers
  5: string supervisor_id
  7: map<string, double> total_resources
}

struct TopologySummary {
  1: string id
  2: string name
  3: i32 num_tasks
  4: i32 num_executors
  5: i32 num_workers
  6: i32 uptime_secs
  7: string status
}

struct ClusterSummary {
  1: list<SupervisorSummary> supervisors
  3: list<TopologySummary> topologies
  4: list<NimbusSummary> nimbuses
}

struct ErrorInfo {
  1: string error
  2: i32 error_time_secs
  3: string host
  4: i32 port
}

struct ExecutorInfo {
  1: i32 task_start
  2: i32 task_end
}

/* outer key: time window in seconds, or ":all-time"; inner key: stream */
struct SpoutStats {
  1: map<string, map<string, i64>> acked
  2: map<string, map<string, i64>> failed
  3: map<string, map<string, double>> complete_ms_avg
}

union ExecutorSpecificStats {
  2: SpoutStats spout      // a bolt's (field 1) are skipped: the wrappers measure better
}

struct ExecutorStats {
  1: map<string, map<string, i64>> emitted
  2: map<string, map<string, i64>> transferred
  3: ExecutorSpecificStats specific
  4: double rate
}

struct ExecutorSummary {
  1: ExecutorInfo executor_info
  2: string component_id
  3: string host
  4: i32 port
  5: i32 uptime_secs       // of its worker; 0 where no heartbeat was read
  7: ExecutorStats stats   // absent until the worker has made its executors
}

struct TopologyInfo {
  1: string id
  2: string name
  3: i32 uptime_secs
  4: list<ExecutorSummary> executors
  5: string status
  6: map<string, list<ErrorInfo>> errors
  513: string sched_status   // what the scheduler says of it
}

enum NumErrorsChoice { ALL = 0, NONE = 1, ONE = 2 }
struct GetInfoOptions { 1: NumErrorsChoice num_err_choice }
struct KillOptions { 1: i32 wait_secs }
struct RebalanceOptions {
  1: i32 wait_secs
  2: i32 num_workers
  3: map<string, i32> num_executors
}

struct Credentials {
  1: map<string, string> creds
}

service Nimbus {
  ClusterSummary getClusterInfo() throws (1: AuthorizationException aze)
  TopologyInfo getTopologyInfoByNameWithOpts(1: string name, 2: GetInfoOptions options)
    throws (1: NotAliveException e, 2: AuthorizationException aze)
  string getNimbusConf() throws (1: AuthorizationException aze)
  string getTopologyConf(1: string id) throws (1: NotAliveException e, 2: AuthorizationException aze)
  void rebalance(1: string name, 2: RebalanceOptions options)
    throws (1: NotAliveException e, 2: InvalidTopologyException ite, 3: AuthorizationException aze)
  void uploadNewCredentials(1: string name, 2: Credentials creds)
    throws (1: NotAliveException e, 2: InvalidTopologyException ite, 3: AuthorizationException aze)
  void killTopologyWithOpts(1: string name, 2: KillOptions options)
    throws (1: NotAliveException e, 2: AuthorizationException aze)
}
