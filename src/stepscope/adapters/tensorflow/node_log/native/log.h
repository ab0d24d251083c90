// The log of what the nodes of a run did: memory that many threads write to and one reads. It knows
// nothing of TensorFlow; `node_log.cc` has an executor write to it, and tests/native/ has threads do
// so under the sanitizers.
//
// What a graph determines is known once: a `Graph` has a number and the facts of its nodes, as text
// and numbers that the reader takes apart once per graph. What a run adds is a record per execution:
// the numbers of graph and node, three times, a state. What a node puts out is described once too:
// each distinct (dtype, shape) of the process has a number (`Descriptions`), and a record names it.
// What executions took of allocators comes once their step is over (`Took`).
//
// Guarantees.
// - A record is written by one thread at a time: by the one that began the node and, once that has
//   handed it on (an op that ends elsewhere), by the other. The log takes no lock for it.
// - A log may be read at any time, from any thread, also while it is written to: what `state` says
//   of a record when it is read has been written in full.
// - It lives until its reader and every step that writes to it have let go of it (`Unref`), and
//   the facts of the graphs that it names live as long.
// - A record costs 64 bytes, taken from memory that its thread alone writes to and that the next log
//   uses again: fresh pages cost as much as the rest. So they are asked for many at once, and up to
//   17 MB of them stay (`kMostFree`); what is beyond that the system has back.
// - It is bounded (`kMostChunks`, 70 MB, a million records), and so are all logs together
//   (`kMostChunksInAll`, 270 MB) and all descriptions (`kMostDescriptions`): a node that begins when
//   they are full is counted, not kept. One that began before has room for its outputs.
// - Memory is told of all executions or of none: not while a step is under way, and not where there
//   were more changes than `kMostChanges` (50 MB), or `kMostChangesInAll` (200 MB) in all logs.
// - Where it is told a file to lie in (`MapTo`), records lie there, as long as it has room, and on
//   the heap when it has not. What the file is to hold is reserved beforehand: a disk that becomes
//   full later is no harm. Whatever ends the process, the file then has every run whose log lives,
//   under way or over, with every execution of it, ended or begun, by places and numbers; the facts
//   of their graphs are in another file beside it. The file is locked while the process lives. A
//   fork has none of it: what it runs is logged on its heap, and what it still writes goes nowhere.

#ifndef STEPSCOPE_LOG_H_
#define STEPSCOPE_LOG_H_

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepscope {

// -- time: the processor's counter where it runs evenly, else the system's clock ------------------

inline int64_t Read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

inline bool CounterIsEven() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
#else
  return false;
#endif
}

inline const bool even_counter = CounterIsEven();

inline int64_t Ticks() {
#if defined(__x86_64__)
  if (even_counter) return static_cast<int64_t>(__rdtsc());
#endif
  return Read(CLOCK_REALTIME);
}

// A moment by both clocks; of some tries the one that was not interrupted.
struct Moment {
  explicit Moment(clockid_t clock) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; ++i) {
      const int64_t before = Ticks(), now = Read(clock), after = Ticks();
      if (after - before >= best) continue;
      best = after - before;
      ticks = before + best / 2;
      ns = now;
    }
  }
  int64_t ticks = 0, ns = 0;
};

inline const Moment loaded(CLOCK_MONOTONIC);

inline double NsPerTick() {
  if (!even_counter) return 1.0;
  const Moment now(CLOCK_MONOTONIC);
  return static_cast<double>(now.ns - loaded.ns) / static_cast<double>(now.ticks - loaded.ticks);
}

// -- what tensors are: each distinct description of the process once ----------------------------

constexpr uint32_t kMostDescriptions = 1u << 20;

struct Description {
  uint32_t number;
  int32_t dtype;
  std::vector<int64_t> dims;

  // `dim` gives the size of an axis.
  template <typename Dim>
  bool Is(int32_t other, int rank, Dim dim) const {
    if (dtype != other || static_cast<int>(dims.size()) != rank) return false;
    for (int i = 0; i < rank; ++i) {
      if (dims[i] != dim(i)) return false;
    }
    return true;
  }
};

// Numbered from 1 in the order in which they were first seen. Never destroyed.
class Descriptions {
 public:
  static Descriptions& All() {
    static Descriptions* all = new Descriptions;
    return *all;
  }

  // Null where there are too many already.
  const Description* Find(int32_t dtype, std::vector<int64_t> dims) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& place = known_[{dtype, dims}];
    if (place == nullptr && list_.size() < kMostDescriptions) {
      const uint32_t number = static_cast<uint32_t>(list_.size()) + 1;
      place.reset(new Description{number, dtype, std::move(dims)});
      list_.push_back(place.get());
    }
    return place.get();
  }

  // Those after the first `from`, one after the other: dtype, rank, sizes of the axes.
  std::vector<int64_t> After(uint32_t from) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> found;
    for (size_t i = from; i < list_.size(); ++i) {
      found.push_back(list_[i]->dtype);
      found.push_back(static_cast<int64_t>(list_[i]->dims.size()));
      found.insert(found.end(), list_[i]->dims.begin(), list_[i]->dims.end());
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int32_t, std::vector<int64_t>>, std::unique_ptr<const Description>> known_;
  std::vector<const Description*> list_;
};

// -- allocators: each name once -------------------------------------------------------------------

// Numbered from 0 in the order in which they were first seen. Never destroyed.
class AllocatorNames {
 public:
  static AllocatorNames& All() {
    static AllocatorNames* all = new AllocatorNames;
    return *all;
  }

  uint16_t Number(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t place = std::find(names_.begin(), names_.end(), name) - names_.begin();
    if (place == names_.size()) names_.push_back(name);
    return static_cast<uint16_t>(place);
  }

  std::vector<std::string> Names() {
    std::lock_guard<std::mutex> lock(mutex_);
    return names_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_;
};

// -- what a graph determines ----------------------------------------------------------------------

constexpr uint32_t kNoNode = UINT32_MAX;

inline std::atomic<uint32_t> graph_numbers{1};

// The nodes of one executor: numbered from 0, found by the address of what the executor calls them.
class Graph {
 public:
  // `outputs` is how many each node has; `facts` is for the reader alone.
  Graph(const std::vector<int>& outputs, std::string facts)
      : number(graph_numbers.fetch_add(1)), facts(std::move(facts)) {
    size_t slots = 0;
    for (int count : outputs) {
      first_slot_.push_back(slots);
      slots += count;
    }
    first_slot_.push_back(slots);
    last_ = std::make_unique<std::atomic<const Description*>[]>(slots);
    for (size_t i = 0; i < slots; ++i) last_[i].store(nullptr, std::memory_order_relaxed);
    size_t size = 16;
    while (size < 4 * outputs.size()) size *= 2;
    places_.assign(size, {nullptr, kNoNode});
  }

  virtual ~Graph() = default;

  // Before it is used by any step.
  void Name(const void* address, uint32_t node) {
    size_t place = Hash(address);
    while (places_[place].first != nullptr && places_[place].first != address) {
      place = (place + 1) & (places_.size() - 1);
    }
    places_[place] = {address, node};
  }

  uint32_t Node(const void* address) const {
    for (size_t place = Hash(address);; place = (place + 1) & (places_.size() - 1)) {
      if (places_[place].first == address) return places_[place].second;
      if (places_[place].first == nullptr) return kNoNode;
    }
  }

  // The number of what this output of the node is now; 0 where there are too many to have one. As a
  // rule it is what it was the last time.
  template <typename Dim>
  uint32_t Described(uint32_t node, int slot, int32_t dtype, int rank, Dim dim) const {
    const size_t place = first_slot_[node] + slot;
    const bool known = place < first_slot_[node + 1];
    const Description* found = known ? last_[place].load(std::memory_order_acquire) : nullptr;
    if (found != nullptr && found->Is(dtype, rank, dim)) return found->number;
    std::vector<int64_t> dims(rank);
    for (int i = 0; i < rank; ++i) dims[i] = dim(i);
    found = Descriptions::All().Find(dtype, std::move(dims));
    if (found == nullptr) return 0;
    if (known) last_[place].store(found, std::memory_order_release);
    return found->number;
  }

  const uint32_t number;
  const std::string facts;
  mutable std::atomic<uint64_t> kept_by{0};  // the number of the last map that has its facts

 private:
  size_t Hash(const void* address) const {
    const uint64_t bits = reinterpret_cast<uint64_t>(address);
    return ((bits >> 4) * 0x9E3779B97F4A7C15u >> 20) & (places_.size() - 1);
  }

  std::vector<size_t> first_slot_;
  std::unique_ptr<std::atomic<const Description*>[]> last_;
  std::vector<std::pair<const void*, uint32_t>> places_;  // open addressing; a node has one name, or two
};

// -- the log --------------------------------------------------------------------------------------

constexpr int kRecords = 256;
constexpr int64_t kMostChunks = int64_t{1} << 12;
constexpr int64_t kMostChunksInAll = int64_t{1} << 14;
constexpr int64_t kMostChunksUnread = kMostChunksInAll / 4;
constexpr size_t kMostFree = 1024;  // 17 MB
constexpr int64_t kSlab = 32;  // chunks that are taken of the system at once
constexpr int64_t kMostChanges = int64_t{1} << 21;
constexpr int64_t kMostChangesInAll = int64_t{1} << 23;
constexpr int64_t kMostChangesUnread = kMostChangesInAll / 4;

// `kOutput` is no execution: a further output of one.
enum State : int32_t { kWaiting = 0, kStarted = 1, kEnded = 2, kDone = 3, kFailed = 4, kOutput = 5 };

inline std::atomic<uint64_t> log_numbers{1};
inline std::atomic<uint64_t> thread_numbers{1};
inline std::atomic<int64_t> chunks_in_use{0};  // of all logs
inline std::atomic<int64_t> changes_in_use{0};

template <typename Record>
class Log;

// One executor's part in a run: its log and its graph. It lives until all its nodes are over.
template <typename Record>
struct Step {
  Log<Record>* log;
  const Graph* graph;
};

// What a log keeps of one execution. A `Record` is one of these and whatever its writer needs.
template <typename Record>
class Entry {
 public:
  void Begin() {
    start = Ticks();
    state.store(kStarted, std::memory_order_release);
  }
  void End() {
    end = Ticks();
    state.store(kEnded, std::memory_order_release);
  }
  // Nothing is written to it after this.
  void Finish() { state.store(failed ? kFailed : kDone, std::memory_order_release); }
  // Before it is finished. `dim` gives the size of an axis.
  template <typename Dim>
  void AddOutput(int slot, int dtype, int rank, Dim dim);

  const Step<Record>* step;
  int64_t scheduled_ns, start, end;
  uint32_t graph, node;
  uint32_t output;  // the description of output 0; others are records of their own
  bool failed;
  std::atomic<int32_t> state;
};

// What is read of one execution.
struct Row {
  int64_t scheduled_ns, start_ns, end_ns;
  uint32_t graph, node;
  int32_t thread, state;
  uint32_t output, unused;
};

// And of an output that is not output 0: `row` is the execution's place among the rows.
struct OutputRow {
  uint32_t row, slot, output, unused;
};

// What an execution took of an allocator, or gave back to it; `Record` is a log's.
template <typename Record>
struct MemoryChange {
  const Record* owner;
  int64_t time_us, bytes;  // less than 0 bytes where they were given back
  uint16_t allocator;      // its number among `AllocatorNames`
  uint16_t later;          // whether the execution was over by then
};

// And what is read of it: `row` is the execution's place among the rows.
struct MemoryRow {
  int64_t time_us, bytes;
  uint32_t row;
  uint16_t allocator, later;
};

// What a file that chunks lie in begins with, before the runs and the chunks. All sizes in bytes.
struct MapHeader {
  char magic[8];
  int64_t version, process, header_bytes, chunk_bytes, records_at, record_bytes, records, chunks;
  int64_t runs_at, run_bytes, runs;
  // Where in a record these are.
  int64_t scheduled_at, start_at, end_at, graph_at, node_at, output_at, state_at;
  int64_t even_counter;
  std::atomic<double> ns_per_tick;
};
// What it says of a run, as long as that has a log.
struct MapRun {
  std::atomic<uint64_t> log;  // the number of that; 0 where nobody uses this
  int64_t step;               // by which the program knows the run
  int64_t began_ns;
  std::atomic<int64_t> ended_ns;  // 0 while it is under way
  std::atomic<int64_t> failed;
  char what[88];  // what ran, cut to fit
};
static_assert(sizeof(MapRun) == 128, "a reader counts on it");
constexpr int64_t kMapRuns = 1000;
constexpr int64_t kMapRunsAt = 4096;
constexpr int64_t kMapHeaderBytes = kMapRunsAt + (kMapRuns * sizeof(MapRun) + 4095) / 4096 * 4096;
constexpr size_t kMostKeptBytes = size_t{1} << 22;
constexpr int64_t kTouchedBytes = int64_t{1} << 24;
constexpr int kHighFile = 200;  // the program's own files have the numbers they have without us

inline std::atomic<uint64_t> map_numbers{1};

// `Record` is an `Entry<Record>` with a static `ThreadHandle()`: the number by which others know the
// calling thread.
template <typename Record>
class Log {
 public:
  explicit Log(bool outputs, int64_t most_chunks = kMostChunks)
      : outputs(outputs),
        most_chunks(most_chunks),
        number(log_numbers.fetch_add(1)),
        began(CLOCK_REALTIME) {}

  // The log that steps which this thread starts are to be written to; null where none is asked for.
  static Log* Asked() { return here_.asked; }

  // Ask for it, until `Leave` on the same thread.
  void Enter() {
    outer_ = here_.asked;
    here_.asked = this;
  }
  void Leave() { here_.asked = outer_; }

  // Whether its reader may take its time: as long as logs that nobody has read take little memory, and
  // only where no map shows it as under way.
  bool CanWait() const {
    return run_ == nullptr && chunks_in_use.load(std::memory_order_relaxed) < kMostChunksUnread &&
           changes_in_use.load(std::memory_order_relaxed) < kMostChangesUnread;
  }

  // By what it is known to who reads the map that it lies in. Before it is entered.
  void Known(int64_t step, const char* what) {
    Free& free = FreeChunks();
    std::lock_guard<std::mutex> lock(free.mutex);
    if (free.map == nullptr) return;
    Map& map = *free.map;
    if (!map.free_runs.empty()) {
      run_ = map.free_runs.back();
      map.free_runs.pop_back();
    } else if (map.runs_given < kMapRuns) {
      run_ = reinterpret_cast<MapRun*>(map.memory + kMapRunsAt) + map.runs_given++;
    } else {
      return;
    }
    run_map_ = map.number;
    run_->step = step;
    run_->began_ns = began.ns;
    run_->ended_ns.store(0, std::memory_order_relaxed);
    run_->failed.store(0, std::memory_order_relaxed);
    memset(run_->what, 0, sizeof run_->what);
    memcpy(run_->what, what, std::min(strlen(what), sizeof run_->what - 1));
    run_->log.store(number, std::memory_order_release);
  }

  // The run is over, and its log stays until it is let go of. Gives how many records it has, changes
  // of memory among them.
  int64_t Over(bool failed) {
    if (run_ != nullptr) {
      run_->failed.store(failed, std::memory_order_relaxed);
      run_->ended_ns.store(stepscope::Read(CLOCK_REALTIME), std::memory_order_release);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    int64_t records = static_cast<int64_t>(changes_.size());
    for (const Chunk* chunk : chunks_) records += chunk->used.load(std::memory_order_acquire);
    return records;
  }

  // A record of a node that is about to run; null, and counted, where the log is full.
  Record* NewRecord(const Step<Record>* step, uint32_t node) {
    ThisThread& here = here_;
    const bool full = !HasRoomFor(1);
    // Looking for this thread's chunk takes a lock: not for a node that is not kept anyway.
    Chunk* chunk = here.log == number ? here.chunk : full ? nullptr : Find(here);
    int place = chunk == nullptr ? kRecords : chunk->used.load(std::memory_order_relaxed);
    // Outputs may have taken chunks beyond the last: those are not for records.
    if (full && (place == kRecords || !HasRoomFor(0))) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    if (place == kRecords) {
      chunk = NewChunk(here);
      place = 0;
    }
    Record* record = &chunk->records[place];
    record->step = step;
    record->scheduled_ns = record->start = record->end = 0;
    record->graph = step->graph->number;
    record->node = node;
    record->output = 0;
    record->failed = false;
    record->state.store(kWaiting, std::memory_order_relaxed);
    chunk->used.store(place + 1, std::memory_order_release);
    return record;
  }

  // Steps of this graph are going to write to it; one `Took` and one `Unref` each when they are over.
  void Started(int64_t step, std::shared_ptr<const Graph> graph) {
    Ref();
    Keep(*graph);
    std::lock_guard<std::mutex> lock(mutex_);
    ++untold_;
    steps_.push_back(step);
    for (const auto& known : graphs_) {
      if (known == graph) return;
    }
    graphs_.push_back(std::move(graph));
  }

  // What the executions of a step took, those of each one after the other and in order; `all` unless
  // that is not known of some of them.
  void Took(const std::vector<MemoryChange<Record>>& changes, bool all) {
    const int64_t count = static_cast<int64_t>(changes.size());
    std::lock_guard<std::mutex> lock(mutex_);
    --untold_;
    const int64_t known = static_cast<int64_t>(changes_.size());
    const bool fits = known + count <= kMostChanges &&
                      changes_in_use.load(std::memory_order_relaxed) + count <= kMostChangesInAll;
    if (!all || !fits) {
      some_unknown_ = true;
      return;
    }
    changes_in_use.fetch_add(count, std::memory_order_relaxed);
    changes_.insert(changes_.end(), changes.begin(), changes.end());
  }

  // A graph that its records name; null where they do not.
  std::shared_ptr<const Graph> Find(uint32_t graph) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& known : graphs_) {
      if (known->number == graph) return known;
    }
    return nullptr;
  }

  // Have records lie in this file from now on, which is made and must not be there, for as long as
  // it has room for them; null for the heap alone. The facts of graphs are in `<path>.graphs`. Gives
  // the number of the system's error, 0 where there was none. The map that was used before stays as
  // it is: runs under way may write to it.
  static int MapTo(const char* path, int64_t bytes) {
    static const int in_fork = pthread_atfork(nullptr, nullptr, InFork);
    static_cast<void>(in_fork);
    std::unique_ptr<Map> map;
    if (path != nullptr) {
      const int64_t chunks = (bytes - kMapHeaderBytes) / static_cast<int64_t>(sizeof(Chunk));
      if (chunks < 1) return EINVAL;
      const int64_t size = kMapHeaderBytes + chunks * sizeof(Chunk);
      const std::string facts_path = std::string(path) + ".graphs";
      constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
      const int file = OpenHigh(path, kFlags);
      if (file < 0) return errno;
      const int facts = OpenHigh(facts_path.c_str(), kFlags | O_APPEND);
      int error = facts < 0 ? errno : posix_fallocate(file, 0, size);
      if (error == 0 && flock(file, LOCK_EX | LOCK_NB) != 0) error = errno;
      void* memory = MAP_FAILED;
      if (error == 0) {
        memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED) error = errno;
      }
      if (error != 0) {
        close(file);
        unlink(path);
        if (facts >= 0) {
          close(facts);
          unlink(facts_path.c_str());
        }
        return error;
      }
      map.reset(new Map{map_numbers.fetch_add(1), static_cast<char*>(memory), size, chunks, file,
                        facts});
      const std::unique_ptr<const Chunk> example(new Chunk);
      const Record& record = example->records[0];
      const auto at = [](const void* part, const void* whole) {
        return static_cast<const char*>(part) - static_cast<const char*>(whole);
      };
      auto* header = new (memory) MapHeader;
      header->version = 2;
      header->process = getpid();
      header->header_bytes = kMapHeaderBytes;
      header->chunk_bytes = sizeof(Chunk);
      header->records_at = at(&record, example.get());
      header->record_bytes = sizeof(Record);
      header->records = kRecords;
      header->chunks = chunks;
      header->runs_at = kMapRunsAt;
      header->run_bytes = sizeof(MapRun);
      header->runs = kMapRuns;
      header->scheduled_at = at(&record.scheduled_ns, &record);
      header->start_at = at(&record.start, &record);
      header->end_at = at(&record.end, &record);
      header->graph_at = at(&record.graph, &record);
      header->node_at = at(&record.node, &record);
      header->output_at = at(&record.output, &record);
      header->state_at = at(&record.state, &record);
      header->even_counter = even_counter;
      header->ns_per_tick.store(NsPerTick());
      Touch(static_cast<char*>(memory), std::min(size, kTouchedBytes));
      memcpy(header->magic, "stepslog", 8);  // last: it is a map from now on
    }
    Free& free = FreeChunks();
    std::lock_guard<std::mutex> lock(free.mutex);
    if (map != nullptr) free.ranges.push_back({map->memory, map->memory + map->bytes});
    free.map = std::move(map);
    free.mapped.clear();
    return 0;
  }

  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    if (references_.fetch_sub(1) == 1) delete this;
  }

  // What is there by now, see below: valid until this thread asks again, of any log.
  const std::vector<char>& Read();
  const std::vector<char>& Pack();

  const bool outputs;
  const int64_t most_chunks;
  const uint64_t number;
  const Moment began;

 protected:
  virtual ~Log() {
    chunks_in_use.fetch_sub(made_.load(), std::memory_order_relaxed);
    changes_in_use.fetch_sub(static_cast<int64_t>(changes_.size()), std::memory_order_relaxed);
    Free& free = FreeChunks();
    std::lock_guard<std::mutex> lock(free.mutex);
    if (run_ != nullptr) {
      run_->log.store(0, std::memory_order_release);
      if (free.map != nullptr && free.map->number == run_map_) free.map->free_runs.push_back(run_);
    }
    for (Chunk* chunk : chunks_) {
      chunk->log.store(0, std::memory_order_release);
      if (free.Maps(chunk)) {
        if (free.map != nullptr && free.map->number == chunk->map) free.mapped.push_back(chunk);
      } else if (free.chunks.size() < kMostFree) {
        free.chunks.push_back(chunk);
      } else {
        free.places.push_back(Emptied(chunk));
      }
    }
  }

 private:
  friend class Entry<Record>;

  // Memory that one thread writes one log's records to.
  struct Chunk {
    std::atomic<uint64_t> log;      // its number; 0 where nobody uses it
    int64_t began_ticks, began_ns;  // of that log
    uint64_t map;     // the number of the map that it lies in; 0 on the heap
    uint64_t writer;  // its number among this process's threads: the system's are given again
    int32_t thread;
    uint32_t thread_handle;
    char thread_name[16];
    std::atomic<int> used;
    Record records[kRecords];
  };

  struct ThisThread {
    Log* asked = nullptr;
    Chunk* chunk = nullptr;  // the one last written to, and its log
    uint64_t log = 0;
    uint64_t number = 0;
    int32_t id = 0;
    uint32_t handle = 0;
    char name[16] = "";
  };
  static inline thread_local ThisThread here_;

  // Never destroyed: an abandoned run may still be under way when the process ends.
  // Its memory stays where it is: runs under way may write to it.
  struct Map {
    ~Map() {
      // What is mapped holds the lock on, and a fork must not let go of its parent's.
      if (getpid() == process) flock(file, LOCK_UN);
      close(file);
      close(facts);
    }

    const uint64_t number;
    char* const memory;
    const int64_t bytes, chunks;
    const int file;
    const int facts;     // the file of the graphs
    const pid_t process = getpid();
    int64_t given = 0;   // chunks, for the first time: beyond them nothing was made yet
    int64_t runs_given = 0;
    std::vector<MapRun*> free_runs;
  };
  struct Free {
    std::mutex mutex;
    std::vector<Chunk*> chunks;  // on the heap
    std::vector<void*> places;   // for chunks that are to be made there, or again
    std::vector<Chunk*> mapped;  // in `map`
    std::unique_ptr<Map> map;
    std::vector<std::pair<char*, char*>> ranges;  // all maps there ever were

    bool Maps(const void* place) const {
      for (const auto& range : ranges) {
        if (place >= range.first && place < range.second) return true;
      }
      return false;
    }
  };
  static Free& FreeChunks() {
    static Free* free = new Free;
    return *free;
  }

  // What is there by now. Its memory serves a thread again, unless it became large: fresh pages cost
  // more than what is written to them.
  struct Content {
    std::vector<Row> rows;
    std::vector<OutputRow> more;
    std::vector<MemoryRow> memory;
    bool counted = false;  // whether `memory` has that of all executions
    std::map<int32_t, std::string> threads;  // by number: handle and name
    std::vector<int64_t> graphs;
    std::vector<char> told;  // what is made of it for the reader

    void Clear() {
      const size_t bytes = rows.capacity() * sizeof(Row) + memory.capacity() * sizeof(MemoryRow);
      if (bytes > kMostKeptBytes) *this = Content();
      rows.clear();
      more.clear();
      memory.clear();
      counted = false;
      threads.clear();
      graphs.clear();
      told.clear();
    }
  };
  Content& Collect() const;

  bool HasRoomFor(int64_t more) const {
    return made_.load(std::memory_order_relaxed) + more <= most_chunks &&
           chunks_in_use.load(std::memory_order_relaxed) + more <= kMostChunksInAll;
  }

  // A further output of an execution, as a record of this thread's. A full log has room for what
  // nodes put out that began before it was.
  void AddOutput(const Entry<Record>* owner, int slot, uint32_t output) {
    ThisThread& here = here_;
    Chunk* chunk = here.log == number ? here.chunk : Find(here);
    int place = chunk == nullptr ? kRecords : chunk->used.load(std::memory_order_relaxed);
    if (place == kRecords) {
      chunk = NewChunk(here);
      place = 0;
    }
    Record* record = &chunk->records[place];
    record->step = nullptr;
    record->scheduled_ns = reinterpret_cast<int64_t>(owner);
    record->start = slot;
    record->output = output;
    record->state.store(kOutput, std::memory_order_relaxed);
    chunk->used.store(place + 1, std::memory_order_release);
  }

  // The chunk that this thread last wrote to before it wrote to another log.
  Chunk* Find(ThisThread& here) {
    if (here.number == 0) {
      here.number = thread_numbers.fetch_add(1);
      here.id = static_cast<int32_t>(syscall(SYS_gettid));
      here.handle = Record::ThreadHandle();
      pthread_getname_np(pthread_self(), here.name, sizeof here.name);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
      if ((*chunk)->writer != here.number) continue;
      here.log = number;
      here.chunk = *chunk;
      return *chunk;
    }
    return nullptr;
  }

  Chunk* NewChunk(ThisThread& here) {
    Chunk* chunk = nullptr;
    {
      Free& free = FreeChunks();
      std::lock_guard<std::mutex> lock(free.mutex);
      if (free.map != nullptr) chunk = Mapped(free);
      if (chunk == nullptr) chunk = OnHeap(free);
    }
    chunk->began_ticks = began.ticks;
    chunk->began_ns = began.ns;
    chunk->writer = here.number;
    chunk->thread = here.id;
    chunk->thread_handle = here.handle;
    memcpy(chunk->thread_name, here.name, sizeof here.name);
    chunk->used.store(0, std::memory_order_relaxed);
    chunk->log.store(number, std::memory_order_release);
    here.log = number;
    here.chunk = chunk;
    made_.fetch_add(1, std::memory_order_relaxed);
    chunks_in_use.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard<std::mutex> lock(mutex_);
    chunks_.push_back(chunk);
    return chunk;
  }

  // A chunk of the heap. Its pages come many at once, as they cost a run more than what is written to
  // them if it has to wait for each; and they stay, to be used again.
  static Chunk* OnHeap(Free& free) {
    if (!free.chunks.empty()) {
      Chunk* chunk = free.chunks.back();
      free.chunks.pop_back();
      return chunk;
    }
    if (free.places.empty()) {
      constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
      void* memory = mmap(nullptr, kSlab * sizeof(Chunk), PROT_READ | PROT_WRITE, kFlags, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      for (int64_t i = 0; i < kSlab; ++i) free.places.push_back(static_cast<Chunk*>(memory) + i);
    }
    Chunk* chunk = new (free.places.back()) Chunk;
    free.places.pop_back();
    chunk->map = 0;
    return chunk;
  }

  // Let the system have the pages that a chunk alone lies on: nothing of it is there any more.
  static void* Emptied(Chunk* chunk) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(chunk) + page - 1) / page * page;
    const auto end = reinterpret_cast<uintptr_t>(chunk + 1) / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    return chunk;
  }

  // A chunk in the map; null where it is full.
  static Chunk* Mapped(Free& free) {
    Map& map = *free.map;
    reinterpret_cast<MapHeader*>(map.memory)->ns_per_tick.store(NsPerTick());
    if (!free.mapped.empty()) {
      Chunk* chunk = free.mapped.back();
      free.mapped.pop_back();
      return chunk;
    }
    if (map.given == map.chunks) return nullptr;
    char* place = map.memory + kMapHeaderBytes + map.given++ * sizeof(Chunk);
    Chunk* chunk = new (place) Chunk;
    chunk->map = map.number;
    return chunk;
  }

  static void InFork() {
    Free& free = FreeChunks();
    new (&free.mutex) std::mutex;  // whoever held it is not here
    free.map.reset();
    for (const auto& range : free.ranges) {
      // An op that forked goes on to write here: not for the parent's readers.
      mmap(range.first, range.second - range.first, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
    }
    free.mapped.clear();
    here_ = ThisThread();
  }

  // Have these pages made now and elsewhere: a run that is the first to write to them waits for each.
  static void Touch(char* memory, int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
    std::thread([memory, bytes] { madvise(memory, bytes, MADV_POPULATE_WRITE); }).detach();
#else
    static_cast<void>(memory), static_cast<void>(bytes);
#endif
  }

  static int OpenHigh(const char* path, int flags) {
    const int low = open(path, flags, 0600);
    if (low < 0) return low;
    const int high = fcntl(low, F_DUPFD_CLOEXEC, kHighFile);
    if (high < 0) return low;
    close(low);
    return high;
  }

  // What the graph's facts are, in the file beside the map: its number, their size, they.
  static void Keep(const Graph& graph) {
    Free& free = FreeChunks();
    std::lock_guard<std::mutex> lock(free.mutex);
    if (free.map == nullptr || graph.kept_by.load() == free.map->number) return;
    const int64_t head[2] = {graph.number, static_cast<int64_t>(graph.facts.size())};
    std::string text(reinterpret_cast<const char*>(head), sizeof head);
    text += graph.facts;
    // One write: a file that is cut short has whole graphs before the cut.
    if (write(free.map->facts, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
      graph.kept_by.store(free.map->number);
    }
  }

  Log* outer_ = nullptr;
  MapRun* run_ = nullptr;
  uint64_t run_map_ = 0;
  std::atomic<int> references_{1};
  std::atomic<int64_t> made_{0}, dropped_{0}, undescribed_{0};
  std::mutex mutex_;
  std::vector<Chunk*> chunks_;
  std::vector<int64_t> steps_;
  std::vector<std::shared_ptr<const Graph>> graphs_;
  int untold_ = 0;  // steps that are under way
  bool some_unknown_ = false;
  std::vector<MemoryChange<Record>> changes_;
};

template <typename Record>
template <typename Dim>
void Entry<Record>::AddOutput(int slot, int dtype, int rank, Dim dim) {
  const uint32_t found = step->graph->Described(node, slot, dtype, rank, dim);
  if (found == 0) {
    step->log->undescribed_.fetch_add(1, std::memory_order_relaxed);
  } else if (slot == 0) {
    output = found;
  } else {
    step->log->AddOutput(this, slot, found);
  }
}

// -- reading --------------------------------------------------------------------------------------

template <typename T>
void Append(std::vector<char>& to, const std::vector<T>& from) {
  const char* begin = reinterpret_cast<const char*>(from.data());
  to.insert(to.end(), begin, begin + from.size() * sizeof(T));
}

template <typename Record>
typename Log<Record>::Content& Log<Record>::Collect() const {
  const double scale = NsPerTick();
  const auto epoch = [&](int64_t ticks) -> int64_t {
    if (ticks == 0 || !even_counter) return ticks;
    return began.ns + static_cast<int64_t>((ticks - began.ticks) * scale);
  };
  static thread_local Content found;
  found.Clear();
  std::vector<Row>& rows = found.rows;
  rows.reserve(chunks_.size() * kRecords);
  std::vector<std::pair<const Chunk*, uint32_t>> firsts;  // the row of each chunk's first record
  std::vector<int32_t> row_of;                            // of each record, by chunk
  for (const Chunk* chunk : chunks_) {
    const int used = chunk->used.load(std::memory_order_acquire);
    found.threads[chunk->thread] = std::to_string(chunk->thread_handle) + " " + chunk->thread_name;
    firsts.push_back({chunk, static_cast<uint32_t>(row_of.size())});
    for (int i = 0; i < used; ++i) {
      const Record& record = chunk->records[i];
      const int32_t now = record.state.load(std::memory_order_acquire);
      if (now == kWaiting || now == kOutput) {
        row_of.push_back(-1);
        continue;
      }
      row_of.push_back(static_cast<int32_t>(rows.size()));
      const bool over = now == kDone || now == kFailed;
      rows.push_back({record.scheduled_ns, epoch(record.start),
                      now == kStarted ? 0 : epoch(record.end), record.graph, record.node,
                      chunk->thread, now, over ? record.output : 0, 0});
    }
    row_of.resize(firsts.back().second + kRecords, -1);
  }
  // After the states were seen: what had been put out by then, and taken, is there now.
  if (outputs) {
    std::sort(firsts.begin(), firsts.end());
    size_t last = 0;  // owners come in the order of their records, mostly
    const auto over = [&](const Record* owner) -> int32_t {  // its row; -1 where it is not over
      const auto holds = [&](size_t at) {
        const Record* first = firsts[at].first->records;
        return owner >= first && owner < first + kRecords;
      };
      if (last >= firsts.size() || !holds(last)) {
        const auto place = std::upper_bound(
            firsts.begin(), firsts.end(), owner,
            [](const Record* at, const auto& first) { return at < first.first->records; });
        last = place - firsts.begin() - 1;  // none before the first wraps around
        if (last >= firsts.size() || !holds(last)) return -1;
      }
      const auto& [chunk, first] = firsts[last];
      const int32_t row = row_of[first + (owner - chunk->records)];
      return row >= 0 && (rows[row].state == kDone || rows[row].state == kFailed) ? row : -1;
    };
    for (const Chunk* chunk : chunks_) {
      const int used = chunk->used.load(std::memory_order_acquire);
      for (int i = 0; i < used; ++i) {
        const Record& record = chunk->records[i];
        if (record.state.load(std::memory_order_acquire) != kOutput) continue;
        const int32_t row = over(static_cast<const Record*>(
            reinterpret_cast<const Entry<Record>*>(record.scheduled_ns)));
        if (row < 0) continue;
        found.more.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(record.start),
                              record.output, 0});
      }
    }
    found.counted = untold_ == 0 && !some_unknown_ && dropped_.load() == 0;
    found.memory.reserve(changes_.size());
    for (const MemoryChange<Record>& change : changes_) {
      const int32_t row = over(change.owner);
      if (row < 0) continue;
      found.memory.push_back({change.time_us, change.bytes, static_cast<uint32_t>(row),
                              change.allocator, change.later});
    }
  }
  for (const auto& graph : graphs_) found.graphs.push_back(graph->number);
  return found;
}

// Ten sizes: rows, further outputs, steps, graphs, bytes of text, executions that were dropped,
// outputs that have no description, changes of memory, whether those are all, bytes of the names of
// allocators; the rows; the further outputs; the numbers of the steps and of the graphs (64 bits);
// the changes; a line for each thread: its number, its handle, its name; and one for each allocator.
template <typename Record>
const std::vector<char>& Log<Record>::Read() {
  std::lock_guard<std::mutex> lock(mutex_);
  Content& content = Collect();
  std::string text;
  for (const auto& known : content.threads) {
    text += std::to_string(known.first) + " " + known.second + "\n";
  }
  std::string allocators;
  for (const std::string& name : AllocatorNames::All().Names()) allocators += name + "\n";
  const std::vector<int64_t> sizes = {
      static_cast<int64_t>(content.rows.size()), static_cast<int64_t>(content.more.size()),
      static_cast<int64_t>(steps_.size()),       static_cast<int64_t>(content.graphs.size()),
      static_cast<int64_t>(text.size()),         dropped_.load(),
      undescribed_.load(),                       static_cast<int64_t>(content.memory.size()),
      content.counted,                           static_cast<int64_t>(allocators.size())};
  std::vector<char>& found = content.told;
  found.reserve(128 + content.rows.size() * sizeof(Row) + content.more.size() * sizeof(OutputRow) +
                content.memory.size() * sizeof(MemoryRow) + text.size() + allocators.size() +
                8 * (steps_.size() + content.graphs.size()));
  Append(found, sizes);
  Append(found, content.rows);
  Append(found, content.more);
  Append(found, steps_);
  Append(found, content.graphs);
  Append(found, content.memory);
  found.insert(found.end(), text.begin(), text.end());
  found.insert(found.end(), allocators.begin(), allocators.end());
  return found;
}

// -- packing: as `metadata/packing.py` and `metadata/stored_log.py` have it ------------------------

// A column of a store: what it is, how many rows, the least number, and how far each row is above it
// in as few bytes as the largest needs; nothing where all are equal. Little-endian, as we are.
template <typename Value>
void PackColumn(std::vector<char>& to, size_t rows, Value value) {
  int64_t least = 0, most = 0;
  for (size_t i = 0; i < rows; ++i) {
    const int64_t now = value(i);
    least = i == 0 ? now : std::min(least, now);
    most = i == 0 ? now : std::max(most, now);
  }
  const uint64_t span = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  const int width = span == 0 ? 0 : span < 1u << 8 ? 1 : span < 1u << 16 ? 2 : span >> 32 ? 8 : 4;
  const char kind = width == 0 ? 1 : width == 1 ? 2 : width == 2 ? 3 : width == 4 ? 4 : 5;
  const uint32_t count = static_cast<uint32_t>(rows);
  char head[13] = {kind};
  memcpy(head + 1, &count, sizeof count);
  memcpy(head + 5, &least, sizeof least);
  to.insert(to.end(), head, head + sizeof head);
  const size_t place = to.size();
  to.resize(place + rows * width);
  for (size_t i = 0; width != 0 && i < rows; ++i) {
    const uint64_t above = static_cast<uint64_t>(value(i)) - static_cast<uint64_t>(least);
    memcpy(&to[place + i * width], &above, width);
  }
}

// The head of a column that is not there, and a column of text: their lengths, then all of them.
inline void PackHead(std::vector<char>& to, char kind, size_t count) {
  char head[13] = {kind};
  const uint32_t size = static_cast<uint32_t>(count);
  memcpy(head + 1, &size, sizeof size);
  to.insert(to.end(), head, head + sizeof head);
}

inline void PackTexts(std::vector<char>& to, const std::vector<std::string>& texts) {
  std::string all;
  PackColumn(to, texts.size(), [&](size_t i) -> int64_t { return texts[i].size(); });
  for (const std::string& text : texts) all += text;
  PackHead(to, 6, all.size());
  to.insert(to.end(), all.begin(), all.end());
}

inline uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9E3779B97F4A7C15u * (b + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Nine numbers: how many rows came to an end, when the first of these began and the last ended,
// rows that did not end well, executions that were dropped, outputs without a description, whether
// memory was to be counted and is not, how many graphs there are, and what runs that are alike have in common: which nodes came how far and put
// out what, how often, and which threads took part. Then the graphs' numbers, and the columns.
template <typename Record>
const std::vector<char>& Log<Record>::Pack() {
  std::lock_guard<std::mutex> lock(mutex_);
  Content& content = Collect();
  const std::vector<Row>& rows = content.rows;
  const std::vector<OutputRow>& more = content.more;
  int64_t ended = 0, first = 0, last = 0, odd = 0;
  uint64_t alike = 0;
  for (const Row& row : rows) {
    const uint64_t node = uint64_t{row.graph} << 32 | row.node;
    alike += Mixed(node, uint64_t{static_cast<uint32_t>(row.state)} << 32 | row.output);
    odd += row.state != kDone;
    if (row.state != kDone && row.state != kFailed) continue;
    first = ended++ == 0 ? row.start_ns : std::min(first, row.start_ns);
    last = std::max({last, row.start_ns, row.end_ns});
  }
  for (const OutputRow& output : more) {
    const Row& row = rows[output.row];
    alike += Mixed(Mixed(row.graph, row.node), uint64_t{output.slot} << 32 | output.output);
  }
  for (const auto& thread : content.threads) alike += Mixed(thread.first, ~uint64_t{1});
  const std::vector<int64_t> sizes = {
      ended, first, last, odd, dropped_.load(), undescribed_.load(), outputs && !content.counted,
      static_cast<int64_t>(content.graphs.size()), static_cast<int64_t>(alike)};
  std::vector<char>& found = content.told;
  const std::vector<MemoryRow>& memory = content.memory;
  found.reserve(512 + 36 * rows.size() + 12 * more.size() + 24 * memory.size());
  Append(found, sizes);
  Append(found, content.graphs);
  const size_t n = rows.size();
  PackColumn(found, n, [&](size_t i) -> int64_t { return rows[i].graph; });
  PackColumn(found, n, [&](size_t i) -> int64_t { return rows[i].node; });
  PackColumn(found, n, [&](size_t i) -> int64_t { return rows[i].thread; });
  PackColumn(found, n, [&](size_t i) -> int64_t { return rows[i].state; });
  PackColumn(found, n, [&](size_t i) -> int64_t { return rows[i].output; });
  PackColumn(found, n, [&](size_t i) { return rows[i].start_ns; });
  PackColumn(found, n, [&](size_t i) { return rows[i].start_ns - rows[i].scheduled_ns; });
  PackColumn(found, n, [&](size_t i) { return rows[i].end_ns - rows[i].start_ns; });
  PackColumn(found, more.size(), [&](size_t i) -> int64_t { return more[i].row; });
  PackColumn(found, more.size(), [&](size_t i) -> int64_t { return more[i].slot; });
  PackColumn(found, more.size(), [&](size_t i) -> int64_t { return more[i].output; });
  if (!content.counted) {
    PackHead(found, 0, 0);
    return found;
  }
  const size_t changes = memory.size();
  PackColumn(found, changes, [&](size_t i) -> int64_t { return memory[i].row; });
  PackColumn(found, changes, [&](size_t i) -> int64_t { return memory[i].allocator; });
  PackColumn(found, changes, [&](size_t i) -> int64_t { return memory[i].later; });
  PackColumn(found, changes, [&](size_t i) { return memory[i].time_us; });
  PackColumn(found, changes, [&](size_t i) { return memory[i].bytes; });
  PackTexts(found, AllocatorNames::All().Names());
  return found;
}

}  // namespace stepscope

#endif  // STEPSCOPE_LOG_H_
