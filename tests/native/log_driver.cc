// Threads that write to logs, read them, and let go of them in every order, for the sanitizers.
//
//   log_driver ROUNDS THREADS [DIRECTORY]
//
// Each round is one log: the thread that asked for it starts steps on all writers, reads while they
// write, and lets go of it before, while or after they end. Half of the ops are handed to another
// thread in the middle, as asynchronous kernels are. What is read must be a log in which every
// record says what was written to it: nodes, states, outputs and memory agree.

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <thread>

#include "log.h"

namespace {

class Record final : public stepscope::Entry<Record> {
 public:
  virtual ~Record() = default;  // TensorFlow's has virtual functions
  static uint32_t ThreadHandle() { return static_cast<uint32_t>(gettid()); }
};

class TestLog final : public stepscope::Log<Record> {
 public:
  using Log::Log;
};

#define CHECK(what)                                                   \
  do {                                                                \
    if (!(what)) {                                                    \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      abort();                                                        \
    }                                                                 \
  } while (false)

// Threads that carry out what they are given, in turn.
class Pool {
 public:
  explicit Pool(int size) {
    for (int i = 0; i < size; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Do(std::function<void()> what) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(what));
    }
    changed_.notify_one();
  }

 private:
  void Work() {
    while (true) {
      std::function<void()> next;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        next = std::move(waiting_.front());
        waiting_.pop_front();
      }
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

// What is written of the i-th node of a step follows from i alone. A graph has these nodes, known by
// the addresses of these places.
constexpr int kNodes = 1200;
char places[kNodes];

int OutputsOf(int i) { return i % 4; }
bool Fails(int i) { return i % 11 == 3; }

std::shared_ptr<stepscope::Graph> NewGraph() {
  std::vector<int> outputs;
  for (int i = 0; i < kNodes; ++i) outputs.push_back(OutputsOf(i));
  auto graph = std::make_shared<stepscope::Graph>(outputs, "facts");
  for (int i = 0; i < kNodes; ++i) graph->Name(&places[i], i);
  for (int i = 0; i < kNodes; ++i) CHECK(graph->Node(&places[i]) == static_cast<uint32_t>(i));
  CHECK(graph->Node(&outputs) == stepscope::kNoNode);
  return graph;
}

// Shared by all rounds, as the steps of a program share theirs.
std::shared_ptr<stepscope::Graph> TheGraph() {
  static auto* graph = new std::shared_ptr<stepscope::Graph>(NewGraph());
  return *graph;
}

// What the nodes of a step take of an allocator, which half of them give back later.
struct Taken {
  std::mutex mutex;
  std::vector<stepscope::MemoryChange<Record>> changes;

  void Add(const Record* record, int i) {
    const uint16_t number = stepscope::AllocatorNames::All().Number(i % 3 ? "one" : "another");
    std::lock_guard<std::mutex> lock(mutex);
    changes.push_back({record, i, 8 * i, number, 0});
    if (i % 2) changes.push_back({record, i + 1, -8 * i, number, 1});
  }
};

void Finish(Record* record, int i, Taken* taken) {
  record->End();
  if (record->step->log->outputs) {
    for (int slot = 0; slot < OutputsOf(i); ++slot) {
      // Some are of another shape each time.
      const int64_t size = i % 5 ? i : static_cast<int64_t>(record->start % 50);
      record->AddOutput(slot, 1, slot + 1, [&](int axis) { return axis == 0 ? i : size; });
    }
  }
  record->failed = Fails(i);
  if (record->step->log->outputs) taken->Add(record, i);
  record->Finish();
}

// A step of `nodes` nodes; it lets go of the log when all of them are over.
void Step(TestLog* log, Pool* pool, int nodes) {
  auto graph = TheGraph();
  auto* step = new stepscope::Step<Record>{log, graph.get()};
  auto left = std::make_shared<std::atomic<int>>(nodes);
  auto taken = std::make_shared<Taken>();
  const auto over = [log, left, step, taken] {
    if (left->fetch_sub(1) != 1) return;
    log->Took(taken->changes, true);
    delete step;
    log->Unref();
  };
  for (int i = 0; i < nodes; ++i) {
    Record* record = log->NewRecord(step, graph->Node(&places[i]));
    if (record == nullptr) {
      over();
      continue;
    }
    record->scheduled_ns = i;
    record->Begin();
    if (i % 2) {
      Finish(record, i, taken.get());
      over();
    } else {
      pool->Do([record, i, taken, over] {
        Finish(record, i, taken.get());
        over();
      });
    }
  }
}

// What was read, taken apart as `LoggedNodes` of log.py does; gives the number of records.
int64_t Check(const std::vector<char>& data, bool outputs, bool all_over) {
  const char* at = data.data();
  const auto column = [&at](auto example, int64_t count) {
    std::vector<decltype(example)> found(count);
    if (count) memcpy(found.data(), at, count * sizeof(example));
    at += count * sizeof(example);
    return found;
  };
  const auto sizes = column(int64_t{}, 10);
  const auto rows = column(stepscope::Row{}, sizes[0]);
  const auto more = column(stepscope::OutputRow{}, sizes[1]);
  column(int64_t{}, sizes[2]);
  const auto graphs = column(int64_t{}, sizes[3]);
  CHECK(graphs.size() == 1 && graphs[0] == TheGraph()->number);
  const auto memory = column(stepscope::MemoryRow{}, sizes[7]);
  const std::string allocators(at + sizes[4], sizes[9]);
  CHECK(at + sizes[4] + sizes[9] == data.data() + data.size());
  if (all_over) CHECK(sizes[8] == (outputs && sizes[5] == 0));
  CHECK(sizes[6] == 0);
  const std::vector<int64_t> described = stepscope::Descriptions::All().After(0);
  std::vector<std::pair<int64_t, int64_t>> known = {{0, 0}};  // rank and first axis, by number
  for (size_t i = 0; i < described.size(); i += 2 + described[i + 1]) {
    CHECK(described[i] == 1);
    known.push_back({described[i + 1], described[i + 2]});
  }
  std::unordered_map<uint32_t, int> further;
  for (const auto& output : more) {
    CHECK(output.row < rows.size() && output.slot > 0 && output.output < known.size());
    CHECK(known[output.output].first == output.slot + 1);
    CHECK(known[output.output].second == rows[output.row].node);
    ++further[output.row];
  }
  std::unordered_map<uint32_t, int> changes;
  for (const auto& change : memory) {
    CHECK(change.row < rows.size() && change.allocator < 2);
    const int node = static_cast<int>(rows[change.row].node);
    const int sign = changes[change.row]++ ? -1 : 1;
    CHECK(change.bytes == 8 * sign * node && change.time_us == node + change.later);
    CHECK(change.later == (sign < 0));
    const std::string name = node % 3 ? "one" : "another";
    const bool first = allocators.compare(0, name.size() + 1, name + "\n") == 0;
    CHECK(first == (change.allocator == 0));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    const int node = static_cast<int>(row.node);
    if (sizes[8]) CHECK(changes[i] == 1 + node % 2);
    CHECK(row.graph == graphs[0] && row.scheduled_ns == node && row.start_ns != 0);
    const bool over = row.state == stepscope::kDone || row.state == stepscope::kFailed;
    CHECK(over || !all_over);
    if (!over) continue;
    CHECK((row.state == stepscope::kFailed) == Fails(node));
    CHECK(row.end_ns != 0);
    const bool first = outputs && OutputsOf(node) > 0;
    CHECK((row.output != 0) == first);
    if (first) CHECK(known[row.output].first == 1 && known[row.output].second == node);
    CHECK(further[i] == (first ? OutputsOf(node) - 1 : 0));
  }
  return rows.size();
}

// A log from its beginning to its end, as one traced run has it.
void Round(int round, Pool* writers, Pool* kernels) {
  constexpr int kSteps = 3;
  const bool outputs = round % 2;
  auto* log = new TestLog(outputs);
  log->Enter();
  CHECK(TestLog::Asked() == log);
  log->Ref();  // for the reader of the end
  for (int step = 0; step < kSteps; ++step) {
    log->Started(step, TheGraph());
    writers->Do([log, kernels] { Step(log, kernels, kNodes); });
  }
  if (round % 3 == 0) {  // a nested run, on the same thread
    auto* inner = new TestLog(outputs);
    inner->Enter();
    inner->Started(0, TheGraph());
    Step(inner, kernels, 50);
    inner->Leave();
    Check(inner->Read(), outputs, false);
    inner->Unref();
  }
  CHECK(TestLog::Asked() == log);
  Check(log->Read(), outputs, false);
  log->Leave();
  if (round % 4) Check(log->Read(), outputs, false);
  if (round % 3 == 0) CHECK(log->Pack().size() > 8 * sizeof(int64_t));
  log->Unref();  // abandoned: the steps may still be writing
  if (round % 5 == 0) {
    int64_t known = 0;
    while (known < kSteps * kNodes) {
      const int64_t now = Check(log->Read(), outputs, false);
      CHECK(now >= known);
      known = now;
      std::this_thread::yield();
    }
  }
  log->Unref();
}

// Once all is over, what is read is complete.
void Complete() {
  auto* log = new TestLog(true);
  log->Started(0, TheGraph());
  {
    Pool kernels(1);
    Step(log, &kernels, 1000);
  }
  CHECK(Check(log->Read(), true, true) == 1000);
  log->Unref();
}

// A full log keeps what began before, whole, and counts the rest.
void Full() {
  auto* log = new TestLog(true, 3);
  for (int step = 0; step < 2; ++step) {
    log->Started(step, TheGraph());
    Pool kernels(1);
    Step(log, &kernels, 1000);
  }
  const std::vector<char> data = log->Read();
  const int64_t kept = Check(data, true, true);
  int64_t dropped;
  memcpy(&dropped, data.data() + 5 * sizeof dropped, sizeof dropped);
  CHECK(kept >= 100 && kept <= 3 * stepscope::kRecords && kept + dropped == 2000);
  log->Unref();
}

// A map that is full leaves the rest to the heap; a fork leaves it alone.
void Maps(const std::string& path) {
  constexpr int64_t kBytes = stepscope::kMapHeaderBytes + 100000;
  CHECK(TestLog::MapTo((path + "/none/log").c_str(), kBytes) == ENOENT);
  CHECK(TestLog::MapTo((path + "/log").c_str(), kBytes) == 0);
  CHECK(TestLog::MapTo((path + "/log").c_str(), kBytes) == EEXIST);
  Complete();
  Full();
  auto* kept = new TestLog(true);
  kept->Known(17, "a step");
  kept->Over(true);
  const auto said = [&] {
    stepscope::MapRun run;
    const int file = open((path + "/log").c_str(), O_RDONLY);
    CHECK(pread(file, static_cast<void*>(&run), sizeof run, stepscope::kMapRunsAt) == sizeof run);
    close(file);
    return std::to_string(run.log != 0) + " " + std::to_string(run.step) + " " +
           std::to_string(run.failed) + " " + run.what;
  };
  CHECK(said() == "1 17 1 a step");
  const pid_t child = fork();
  if (child == 0) {
    kept->Unref();
    Complete();
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(said() == "1 17 1 a step");
  kept->Unref();
  CHECK(said() == "0 17 1 a step");
  Complete();
  CHECK(TestLog::MapTo(nullptr, 0) == 0);
  Complete();
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 30;
  const int threads = count > 2 ? atoi(arguments[2]) : 4;
  {
    Pool kernels(threads), writers(threads);
    std::vector<std::thread> programs;
    for (int program = 0; program < 3; ++program) {
      programs.emplace_back([=, &writers, &kernels] {
        for (int round = 0; round < rounds; ++round) Round(round + program, &writers, &kernels);
      });
    }
    for (std::thread& program : programs) program.join();
  }
  Complete();
  Full();
  if (count > 3) Maps(arguments[3]);
  printf("ok\n");
  return 0;
}
