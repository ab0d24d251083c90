// An executor type of our own: TensorFlow's default executor, which notes what its nodes do while
// the thread that starts a step has asked for it.
//
// Guarantees.
// - A step that nobody asked to log is run by the default executor as it is, and so is one that
//   TensorFlow itself collects statistics of.
// - A log belongs to one run. What may be relied on when it is written to and read stands in `log.h`.
// - A node costs two readings of the clock and what `log.h` says of a record.

#include "log.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"

namespace {

using stepscope::Constants;

class Record final : public tensorflow::NodeExecStatsInterface, public stepscope::Entry<Record> {
 public:
  // By which TensorFlow's profiler knows a thread.
  static uint32_t ThreadHandle() {
    return static_cast<uint32_t>(tensorflow::Env::Default()->GetCurrentThreadId());
  }

  void Done(const std::string& device) override { Finish(device); }
  void RecordExecutorStarted() override {}
  void RecordComputeStarted() override { Begin(); }
  void RecordComputeEnded() override { End(); }
  void RecordExecutorEnded() override {}
  bool TrackAllocations() const override { return false; }
  void SetMemory(tensorflow::OpKernelContext* context) override {
    failed = !context->status().ok();
  }
  void SetOutput(int slot, const tensorflow::Tensor* tensor) override;
  void SetScheduled(int64_t nanos) override { scheduled_ns = nanos; }
};

class NodeLog final : public tensorflow::StepStatsCollectorInterface,
                      public stepscope::Log<Record> {
 public:
  using Log::Log;

  tensorflow::NodeExecStatsInterface* CreateNodeExecStats(
      const tensorflow::NodeDef* node) override {
    return NewRecord(node->name(), node->op());
  }

  std::string ReportAllocsOnResourceExhausted(absl::string_view) override { return ""; }
};

void Record::SetOutput(int slot, const tensorflow::Tensor* tensor) {
  if (!log->outputs) return;
  const int rank = tensor->dims();
  const int64_t bytes = tensor->NumElements() * tensorflow::DataTypeSize(tensor->dtype());
  int64_t* dims = AddOutput(slot, tensor->dtype(), bytes, rank);
  for (int i = 0; i < rank; ++i) dims[i] = tensor->dim_size(i);
}

// -- the executor ---------------------------------------------------------------------------------

class LoggingExecutor final : public tensorflow::Executor {
 public:
  LoggingExecutor(std::unique_ptr<tensorflow::Executor> inner, const tensorflow::Graph& graph)
      : inner_(std::move(inner)) {
    auto constants = std::make_shared<Constants>();
    for (const tensorflow::Node* node : graph.op_nodes()) {
      if (node->type_string() != "Const") continue;
      const auto value = node->def().attr().find("value");
      if (value == node->def().attr().end()) continue;
      const auto& tensor = value->second.tensor();
      std::vector<int64_t> described = {tensor.dtype(), tensorflow::DataTypeSize(tensor.dtype()),
                                        tensor.tensor_shape().dim_size()};
      for (const auto& axis : tensor.tensor_shape().dim()) {
        described.push_back(axis.size());
        described[1] *= axis.size();
      }
      constants->emplace(node->name(), std::move(described));
    }
    constants_ = std::move(constants);
  }

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override {
    NodeLog* log = static_cast<NodeLog*>(NodeLog::Asked());
    if (log == nullptr || args.stats_collector != nullptr) {
      inner_->RunAsync(args, std::move(done));
      return;
    }
    Args ours = args;
    ours.stats_collector = log;
    log->Started(args.step_id, constants_);
    inner_->RunAsync(ours, [log, done = std::move(done)](const absl::Status& status) {
      done(status);
      log->Unref();
    });
  }

  std::unique_ptr<tensorflow::Executor> inner_;
  std::shared_ptr<const Constants> constants_;
};

class Factory final : public tensorflow::ExecutorFactory {
 public:
  absl::Status NewExecutor(const tensorflow::LocalExecutorParams& params,
                           const tensorflow::Graph& graph,
                           std::unique_ptr<tensorflow::Executor>* out_executor) override {
    std::unique_ptr<tensorflow::Executor> inner;
    absl::Status status = tensorflow::NewExecutor("DEFAULT", params, graph, &inner);
    if (status.ok()) *out_executor = std::make_unique<LoggingExecutor>(std::move(inner), graph);
    return status;
  }
};

}  // namespace

extern "C" {

// Once per process: whether there was none of that type.
int stepscope_register(const char* executor_type) {
  tensorflow::ExecutorFactory* known = nullptr;
  if (tensorflow::ExecutorFactory::GetFactory(executor_type, &known).ok()) return 0;
  tensorflow::ExecutorFactory::Register(executor_type, new Factory);
  return 1;
}

// Log the steps that this thread starts, until it leaves.
void* stepscope_enter(int outputs) {
  NodeLog* log = new NodeLog(outputs != 0);
  log->Enter();
  return log;
}

// On the thread that entered.
void stepscope_leave(void* log) { static_cast<NodeLog*>(log)->Leave(); }

// What is there by now, to be copied and given back.
const char* stepscope_read(void* log, int64_t* size) {
  auto found = static_cast<NodeLog*>(log)->Read();
  *size = found.size();
  char* copy = new char[found.size()];
  memcpy(copy, found.data(), found.size());
  return copy;
}

void stepscope_give_back(const char* data) { delete[] data; }

// Nobody is going to read it any more.
void stepscope_release(void* log) { static_cast<NodeLog*>(log)->Unref(); }
}
