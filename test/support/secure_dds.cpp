// SPDX-License-Identifier: Apache-2.0
// Participants of Fast DDS with real certificates: who is let in, and who hears whom.
//
//     secure_dds DOMAIN QUIET_S ENCLAVE=pub|sub=TOPIC ...
//
// ENCLAVE is a folder of a keystore, or '-' for a participant without security. Ends when nobody has heard anybody new for
// QUIET_S seconds. Prints one line an argument: "no participant",
// "no endpoint", or the numbers, from 0, of the arguments whose messages it heard. What Fast DDS logs goes before it.

#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/attributes/LibrarySettingsAttributes.h>
#include <fastrtps/xmlparser/XMLProfileManager.h>

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;

struct NumberType : TopicDataType {
    NumberType() {
        setName("Number");
        m_typeSize = 8;
        m_isGetKeyDefined = false;
    }
    bool serialize(void* data, SerializedPayload_t* payload) override {
        std::memset(payload->data, 0, 8);
        payload->data[1] = 1;  // little endian
        std::memcpy(payload->data + 4, data, 4);
        payload->length = 8;
        return true;
    }
    bool deserialize(SerializedPayload_t* payload, void* data) override {
        std::memcpy(data, payload->data + 4, 4);
        return true;
    }
    std::function<uint32_t()> getSerializedSizeProvider(void*) override { return [] { return 8u; }; }
    void* createData() override { return new int32_t; }
    void deleteData(void* data) override { delete static_cast<int32_t*>(data); }
    bool getKey(void*, InstanceHandle_t*, bool) override { return false; }
};

struct Member {
    DomainParticipant* participant = nullptr;
    DataWriter* writer = nullptr;
    DataReader* reader = nullptr;
    std::set<int32_t> heard;
};

static DomainParticipantQos qos_of(const std::string& enclave) {
    DomainParticipantQos qos;
    // Other versions of Fast DDS on this machine lay out their shared memory differently.
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports.push_back(std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>());
    if (enclave == "-") return qos;
    const std::string file = "file://" + enclave + "/";
    const std::vector<std::pair<std::string, std::string>> properties = {
        {"dds.sec.auth.plugin", "builtin.PKI-DH"},
        {"dds.sec.auth.builtin.PKI-DH.identity_ca", file + "identity_ca.cert.pem"},
        {"dds.sec.auth.builtin.PKI-DH.identity_certificate", file + "cert.pem"},
        {"dds.sec.auth.builtin.PKI-DH.private_key", file + "key.pem"},
        {"dds.sec.crypto.plugin", "builtin.AES-GCM-GMAC"},
        {"dds.sec.access.plugin", "builtin.Access-Permissions"},
        {"dds.sec.access.builtin.Access-Permissions.permissions_ca", file + "permissions_ca.cert.pem"},
        {"dds.sec.access.builtin.Access-Permissions.governance", file + "governance.p7s"},
        {"dds.sec.access.builtin.Access-Permissions.permissions", file + "permissions.p7s"},
    };
    for (const auto& [name, value] : properties) qos.properties().properties().emplace_back(name, value);
    return qos;
}

static Member make(uint32_t domain, const std::string& enclave, const std::string& verb, const std::string& topic_name) {
    static std::map<std::string, DomainParticipant*> participants;
    Member made;
    if (!participants.count(enclave)) {
        participants[enclave] = DomainParticipantFactory::get_instance()->create_participant(domain, qos_of(enclave));
    }
    made.participant = participants[enclave];
    if (made.participant == nullptr) return made;
    TypeSupport(new NumberType).register_type(made.participant);
    auto* topic = dynamic_cast<Topic*>(made.participant->lookup_topicdescription(topic_name));
    if (!topic) topic = made.participant->create_topic(topic_name, "Number", TOPIC_QOS_DEFAULT);
    if (verb == "pub") {
        made.writer = made.participant->create_publisher(PUBLISHER_QOS_DEFAULT)->create_datawriter(topic, DATAWRITER_QOS_DEFAULT);
    } else {
        made.reader = made.participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT)->create_datareader(topic, DATAREADER_QOS_DEFAULT);
    }
    return made;
}

int main(int count, char** words) {
    eprosima::fastrtps::LibrarySettingsAttributes settings;
    settings.intraprocess_delivery = eprosima::fastrtps::INTRAPROCESS_OFF;
    eprosima::fastrtps::xmlparser::XMLProfileManager::library_settings(settings);
    std::vector<Member> members;
    for (int i = 3; i < count; ++i) {
        const std::string word = words[i];
        const auto first = word.find('='), second = word.find('=', first + 1);
        members.push_back(make(std::stoul(words[1]), word.substr(0, first), word.substr(first + 1, second - first - 1), word.substr(second + 1)));
    }
    const auto quiet = std::chrono::milliseconds(static_cast<int>(1000 * std::stod(words[2])));
    auto end = std::chrono::steady_clock::now() + quiet;
    while (std::chrono::steady_clock::now() < end) {
        for (int32_t i = 0; i < static_cast<int32_t>(members.size()); ++i) {
            Member& member = members[i];
            if (member.writer) member.writer->write(&i);
            SampleInfo info;
            int32_t number;
            while (member.reader && member.reader->take_next_sample(&number, &info) == ReturnCode_t::RETCODE_OK) {
                if (info.valid_data && member.heard.insert(number).second) end = std::chrono::steady_clock::now() + quiet;
            }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (const Member& member : members) {
        if (!member.participant) std::cout << "no participant";
        else if (!member.writer && !member.reader) std::cout << "no endpoint";
        else for (int32_t number : member.heard) std::cout << number << " ";
        std::cout << std::endl;
    }
    std::_Exit(0);  // taking the participants down would need their endpoints taken down first
}
