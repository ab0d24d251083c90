// An executor type of our own: TensorFlow's default executor, which notes what its nodes do while
// the thread that starts a step has asked for it.
//
// Guarantees.
// - A step that nobody asked to log is run by the default executor as it is, and so is one that
//   TensorFlow itself collects statistics of.
// - A log belongs to one run. What may be relied on when it is written to and read stands in `log.h`.
// - Where outputs are described, memory is counted: TensorFlow then wraps the allocators of every
//   kernel. What was counted is taken over once the step is over, before anybody is told so.
// - A node costs two readings of the clock and what `log.h` says of a record; nothing that its graph
//   determines is looked at again. That is taken where the executor is made, from the graph as it is
//   executed: placed, pruned, optimized.

#include "log.h"

#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tracking_allocator.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/env.h"

namespace {

class Record final : public tensorflow::NodeExecStatsInterface, public stepscope::Entry<Record> {
 public:
  // By which TensorFlow's profiler knows a thread.
  static uint32_t ThreadHandle() {
    return static_cast<uint32_t>(tensorflow::Env::Default()->GetCurrentThreadId());
  }

  void Done(const std::string&) override { Finish(); }
  void RecordExecutorStarted() override {}
  void RecordComputeStarted() override { Begin(); }
  void RecordComputeEnded() override { End(); }
  void RecordExecutorEnded() override {}
  bool TrackAllocations() const override;
  void SetMemory(tensorflow::OpKernelContext* context) override;
  void SetOutput(int slot, const tensorflow::Tensor* tensor) override;
  void SetScheduled(int64_t nanos) override { scheduled_ns = nanos; }
};

class NodeLog final : public stepscope::Log<Record> {
 public:
  using Log::Log;
};

void Record::SetOutput(int slot, const tensorflow::Tensor* tensor) {
  if (!step->log->outputs) return;
  AddOutput(slot, tensor->dtype(), tensor->dims(), [&](int i) { return tensor->dim_size(i); });
}

// What the kernels of a step take of allocators. TensorFlow wraps each kernel's, and the wrapper
// keeps account until it is let go of: what an execution puts out may be given back at any time.
class Memory {
 public:
  // Whether there is room to keep account of a kernel that is about to run.
  bool HasRoom() const { return !full_.load(std::memory_order_relaxed); }

  // An execution is over. It may be on any thread.
  void Add(const Record* record, tensorflow::OpKernelContext* context) {
    for (const auto& [allocator, wrapper] : context->ConsumeWrappedAllocators()) {
      const auto live = static_cast<int64_t>(std::get<2>(wrapper->GetSizes()));
      std::lock_guard<std::mutex> lock(mutex_);
      open_.push_back({record, allocator, wrapper, live});
      if (open_.size() >= sweep_at_) Sweep();
    }
  }

  // The step is over, and nothing is added any more.
  void TellTo(NodeLog* log) {
    for (const Open& open : open_) Close(open);
    log->Took(changes_, HasRoom());
  }

 private:
  struct Open {
    const Record* record;
    tensorflow::Allocator* allocator;
    tensorflow::TrackingAllocator* wrapper;
    int64_t live;  // bytes, when the execution was over
  };
  static constexpr size_t kMostOpen = 1 << 18;  // some 300 bytes each

  // Let go of the wrappers that nothing of is left of.
  void Sweep() {
    size_t kept = 0;
    for (const Open& open : open_) {
      if (std::get<2>(open.wrapper->GetSizes()) != 0) {
        open_[kept++] = open;
      } else {
        Close(open);
      }
    }
    open_.resize(kept);
    sweep_at_ = std::max(sweep_at_, 2 * kept);
    if (sweep_at_ > kMostOpen || changes_.size() > stepscope::kMostChanges) full_ = true;
  }

  void Close(const Open& open) {
    const uint16_t number = Number(open.allocator);
    const auto records = open.wrapper->GetRecordsAndUnRef();
    // An execution takes nothing once it is over: what comes after its last request, once as much
    // is left as was then, is later.
    size_t taken = 0;
    for (size_t i = 0; i < records.size(); ++i) {
      if (records[i].alloc_bytes > 0) taken = i + 1;
    }
    int64_t left = 0;
    size_t i = 0;
    for (; i < records.size() && (i < taken || left != open.live); ++i) {
      left += records[i].alloc_bytes;
      Append(open, records[i], number, 0);
    }
    for (; i < records.size(); ++i) Append(open, records[i], number, 1);
  }

  void Append(const Open& open, const tensorflow::AllocRecord& record, uint16_t number,
              uint16_t later) {
    changes_.push_back({open.record, record.alloc_micros, record.alloc_bytes, number, later});
  }

  uint16_t Number(tensorflow::Allocator* allocator) {
    for (const auto& known : numbers_) {
      if (known.first == allocator) return known.second;
    }
    numbers_.push_back({allocator, stepscope::AllocatorNames::All().Number(allocator->Name())});
    return numbers_.back().second;
  }

  std::mutex mutex_;
  std::atomic<bool> full_{false};
  size_t sweep_at_ = 1 << 14;
  std::vector<Open> open_;
  std::vector<stepscope::MemoryChange<Record>> changes_;
  std::vector<std::pair<tensorflow::Allocator*, uint16_t>> numbers_;
};

// One executor's part in a run, for as long as that lasts.
class Collector final : public tensorflow::StepStatsCollectorInterface,
                        public stepscope::Step<Record> {
 public:
  Collector(NodeLog* log, const stepscope::Graph* graph) : Step{log, graph} {}

  static Collector* Of(const Record* record) {
    return const_cast<Collector*>(static_cast<const Collector*>(record->step));
  }

  tensorflow::NodeExecStatsInterface* CreateNodeExecStats(
      const tensorflow::NodeDef* node) override {
    const uint32_t found = graph->Node(node);
    return found == stepscope::kNoNode ? nullptr : log->NewRecord(this, found);
  }

  std::string ReportAllocsOnResourceExhausted(absl::string_view) override { return ""; }

  Memory memory;
};

bool Record::TrackAllocations() const {
  return step->log->outputs && Collector::Of(this)->memory.HasRoom();
}

void Record::SetMemory(tensorflow::OpKernelContext* context) {
  failed = !context->status().ok();
  if (step->log->outputs) Collector::Of(this)->memory.Add(this, context);
}

// -- a graph as it is executed --------------------------------------------------------------------

constexpr size_t kLargestValue = 1024;  // bytes of a constant that a GraphDef is given with

// The inputs of a node as a GraphDef has them.
std::vector<std::string> InputsOf(const tensorflow::Node* node) {
  std::vector<std::string> found(node->num_inputs());
  for (const tensorflow::Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge()) {
      if (!edge->src()->IsSource()) found.push_back("^" + edge->src()->name());
    } else {
      found[edge->dst_input()] = edge->src()->name();
      if (edge->src_output()) found[edge->dst_input()] += ":" + std::to_string(edge->src_output());
    }
  }
  return found;
}

// The number of what a constant is, which an executor hands on without telling; 0 of other nodes.
uint32_t ConstantOf(const tensorflow::NodeDef& node) {
  if (node.op() != "Const") return 0;
  const auto value = node.attr().find("value");
  if (value == node.attr().end()) return 0;
  std::vector<int64_t> dims;
  for (const auto& axis : value->second.tensor().tensor_shape().dim()) dims.push_back(axis.size());
  const auto* found = stepscope::Descriptions::All().Find(value->second.tensor().dtype(), dims);
  return found == nullptr ? 0 : found->number;
}

// Its facts: a line for the device, then one for each node: name, op type, the number of what a
// constant is, inputs; between them tabs, between inputs blanks. No name has any of these in it.
class ExecutedGraph final : public stepscope::Graph {
 public:
  using Properties = std::shared_ptr<const tensorflow::NodeProperties>;

  static std::shared_ptr<ExecutedGraph> Of(const tensorflow::Graph& graph,
                                           const std::string& device) {
    std::string facts = device;
    std::vector<int> outputs;
    std::vector<const tensorflow::NodeDef*> nodes;
    for (const tensorflow::Node* node : graph.nodes()) {
      if (node->IsSink()) continue;
      facts += "\n" + node->name() + "\t" + node->type_string() + "\t" +
               std::to_string(ConstantOf(node->def())) + "\t";
      for (const std::string& input : InputsOf(node)) facts += input + " ";
      outputs.push_back(node->num_outputs());
      nodes.push_back(&node->def());
    }
    return std::make_shared<ExecutedGraph>(outputs, std::move(facts), nodes);
  }

  ExecutedGraph(const std::vector<int>& outputs, std::string facts,
                const std::vector<const tensorflow::NodeDef*>& nodes)
      : Graph(outputs, std::move(facts)), properties_(nodes.size()) {
    for (size_t node = 0; node < nodes.size(); ++node) Name(nodes[node], node);
  }

  // The kernel of a node was made. It may be one that another executor has made, of the node of the
  // same name there: that is what it is called by.
  void Made(const Properties& properties, const tensorflow::NodeDef* called) {
    const uint32_t node = Node(&properties->node_def);
    if (node == stepscope::kNoNode) return;
    properties_[node] = properties;
    if (called != &properties->node_def) Name(called, node);
  }

  // The NodeDefs one after the other, each after its size (64 bits): for their attributes
  // alone. Large constants have no value there.
  std::string Nodes() const {
    std::string found;
    for (const Properties& node : properties_) {
      static const tensorflow::NodeDef* none = new tensorflow::NodeDef;
      const tensorflow::NodeDef& def = node == nullptr ? *none : node->node_def;
      std::string data;
      const auto& attributes = def.attr();
      const auto value = attributes.find("value");
      if (value != attributes.end() && value->second.ByteSizeLong() > kLargestValue) {
        tensorflow::NodeDef copy;
        for (const auto& attribute : attributes) {
          if (attribute.first != "value") (*copy.mutable_attr())[attribute.first] = attribute.second;
        }
        auto* tensor = (*copy.mutable_attr())["value"].mutable_tensor();
        tensor->set_dtype(value->second.tensor().dtype());
        *tensor->mutable_tensor_shape() = value->second.tensor().tensor_shape();
        copy.AppendToString(&data);
      } else {
        def.AppendToString(&data);
      }
      const int64_t size = data.size();
      found.append(reinterpret_cast<const char*>(&size), sizeof size);
      found += data;
    }
    return found;
  }

 private:
  std::vector<Properties> properties_;
};

// -- the executor ---------------------------------------------------------------------------------

class LoggingExecutor final : public tensorflow::Executor {
 public:
  LoggingExecutor(std::unique_ptr<tensorflow::Executor> inner,
                  std::shared_ptr<const ExecutedGraph> graph)
      : inner_(std::move(inner)), graph_(std::move(graph)) {}

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override {
    NodeLog* log = static_cast<NodeLog*>(NodeLog::Asked());
    if (log == nullptr || args.stats_collector != nullptr) {
      inner_->RunAsync(args, std::move(done));
      return;
    }
    auto* collector = new Collector(log, graph_.get());
    Args ours = args;
    ours.stats_collector = collector;
    log->Started(args.step_id, graph_);
    inner_->RunAsync(ours, [log, collector, done = std::move(done)](const absl::Status& status) {
      collector->memory.TellTo(log);
      done(status);
      delete collector;
      log->Unref();
    });
  }

  std::unique_ptr<tensorflow::Executor> inner_;
  std::shared_ptr<const ExecutedGraph> graph_;
};

class Factory final : public tensorflow::ExecutorFactory {
 public:
  absl::Status NewExecutor(const tensorflow::LocalExecutorParams& params,
                           const tensorflow::Graph& graph,
                           std::unique_ptr<tensorflow::Executor>* out_executor) override {
    auto known = ExecutedGraph::Of(graph, params.device->name());
    tensorflow::LocalExecutorParams ours = params;
    ours.create_kernel = [known, create = params.create_kernel](
                             const ExecutedGraph::Properties& properties,
                             tensorflow::OpKernel** kernel) {
      const absl::Status status = create(properties, kernel);
      if (status.ok()) known->Made(properties, &(*kernel)->def());
      return status;
    };
    std::unique_ptr<tensorflow::Executor> inner;
    const absl::Status status = tensorflow::NewExecutor("DEFAULT", ours, graph, &inner);
    if (status.ok()) *out_executor = std::make_unique<LoggingExecutor>(std::move(inner), known);
    return status;
  }
};

const char* Given(const void* data, size_t bytes, int64_t* size) {
  char* copy = new char[bytes];
  memcpy(copy, data, bytes);
  *size = static_cast<int64_t>(bytes);
  return copy;
}

const char* Lent(const std::vector<char>& data, int64_t* size) {
  *size = static_cast<int64_t>(data.size());
  return data.data();
}

using GraphHandle = std::shared_ptr<const stepscope::Graph>;

}  // namespace

extern "C" {

// Once per process: whether there was none of that type.
int stepscope_register(const char* executor_type) {
  tensorflow::ExecutorFactory* known = nullptr;
  if (tensorflow::ExecutorFactory::GetFactory(executor_type, &known).ok()) return 0;
  tensorflow::ExecutorFactory::Register(executor_type, new Factory);
  return 1;
}

// Log the steps that this thread starts, until it leaves. The run is known by a number and what ran.
void* stepscope_enter(int outputs, int64_t step, const char* what) {
  NodeLog* log = new NodeLog(outputs != 0);
  log->Known(step, what);
  log->Enter();
  return log;
}

// It is over, but may have to be read by others before it is released. Gives how many records it has.
int64_t stepscope_over(void* log, int failed) {
  return static_cast<NodeLog*>(log)->Over(failed != 0);
}

// On the thread that entered. Whether the log can wait to be read, see `CanWait`.
int stepscope_leave(void* log) {
  static_cast<NodeLog*>(log)->Leave();
  return static_cast<NodeLog*>(log)->CanWait();
}

// What is there by now, to be copied before this thread asks again.
const char* stepscope_read(void* log, int64_t* size) {
  return Lent(static_cast<NodeLog*>(log)->Read(), size);
}

// The same as a store has it.
const char* stepscope_pack(void* log, int64_t* size) {
  return Lent(static_cast<NodeLog*>(log)->Pack(), size);
}

void stepscope_give_back(const char* data) { delete[] data; }

// Have logs lie in this file, which is made, as long as it has room; null for the heap alone. Gives
// the number of the system's error, 0 where there was none.
int stepscope_map(const char* path, int64_t bytes) { return NodeLog::MapTo(path, bytes); }

// Nobody is going to read it any more.
void stepscope_release(void* log) { static_cast<NodeLog*>(log)->Unref(); }

// A graph that a log names, to be let go of; null where it names none of that number.
void* stepscope_graph(void* log, int64_t number) {
  auto found = static_cast<NodeLog*>(log)->Find(static_cast<uint32_t>(number));
  return found == nullptr ? nullptr : new GraphHandle(std::move(found));
}

void stepscope_let_go(void* graph) { delete static_cast<GraphHandle*>(graph); }

// Its facts, and its nodes, to be copied and given back.
const char* stepscope_facts(void* graph, int64_t* size) {
  const std::string& facts = (*static_cast<GraphHandle*>(graph))->facts;
  return Given(facts.data(), facts.size(), size);
}

const char* stepscope_nodes(void* graph, int64_t* size) {
  const auto& known = **static_cast<GraphHandle*>(graph);
  const std::string found = static_cast<const ExecutedGraph&>(known).Nodes();
  return Given(found.data(), found.size(), size);
}

// What tensors are, after the first `from` descriptions, to be copied and given back.
const char* stepscope_descriptions(int64_t from, int64_t* size) {
  const auto found = stepscope::Descriptions::All().After(static_cast<uint32_t>(from));
  return Given(found.data(), found.size() * sizeof(int64_t), size);
}
}
